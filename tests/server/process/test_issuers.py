"""How the settings' files become keys and secrets, and which files those are."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from signproxy.config.identity import IdentitySettings
from signproxy.config.settings import Settings
from signproxy.errors import SettingsInvalid
from signproxy.identity.issuer import SharedSecret
from signproxy.server.process.issuers import issuers_of, keys_in
from signproxy.server.process.named_files import MAX_SECRET_BYTES, digest_of
from signproxy.server.process.reloads import watched_files
from tests.documents.volume import Volume


def settings(**issuers: dict[str, object]) -> IdentitySettings:
    common: dict[str, object] = {"audiences": ["signproxy"]}
    declared = {name: {**common, "issuer": f"https://{name}", **issuer} for name, issuer in issuers.items()}
    return msgspec.convert({"issuers": declared}, IdentitySettings)


def test_every_file_that_says_who_is_believed_is_named() -> None:
    """A rotated secret would be noticed at the next start."""
    identity = settings(
        pem={"key_file": "k.pem"},
        shared={"secret_file": "secret"},
        cluster={"discovery": True, "ca_file": "ca.crt", "token_file": "token"},
        other={"jwks_url": "https://idp/keys", "ca_file": "ca.crt"},
    )
    found = {named.file for named in watched_files(Settings(identity=identity))}
    assert found == {Path("k.pem"), Path("secret"), Path("ca.crt"), Path("token")}
    assert not list(watched_files(Settings()))


def test_a_secret_is_read_from_a_mounted_volume(tmp_path: Path) -> None:
    """Kubernetes replaces secrets below the names that the settings give."""
    volume = Volume(tmp_path, {"secret": b"1" * 32 + b"\n"})
    declared = settings(shared={"secret_file": str(tmp_path / "secret"), "algorithms": ["HS256"]})
    for content in (b"1", b"2"):
        volume.swap({"secret": content * 32 + b"\n"})
        (issuer,) = issuers_of(declared)
        assert issuer.keys == SharedSecret(content * 32)


@pytest.mark.parametrize(
    ("make", "problem"),
    (
        (lambda _: None, "cannot be read: No such file or directory"),
        (os.mkfifo, "cannot be read: it is no regular file"),
        (Path.mkdir, "cannot be read: Is a directory"),
        (lambda path: path.write_bytes(b"x" * (MAX_SECRET_BYTES + 1)), "cannot be read: it is larger than 65536 bytes"),
    ),
)
def test_a_file_that_is_no_secret_is_a_fault(tmp_path: Path, make: object, problem: str) -> None:
    """A reload would block for ever on a pipe, or read a disk image into memory."""
    file = tmp_path / "secret"
    assert callable(make)
    make(file)
    with pytest.raises(SettingsInvalid) as caught:
        issuers_of(settings(shared={"secret_file": str(file), "algorithms": ["HS256"]}))
    (finding,) = caught.value.findings
    assert (finding.path, finding.problem) == ("identity.issuers.shared.secret_file", f"{str(file)!r} {problem}")


def test_keys_of_files_are_compared_without_showing_them(tmp_path: Path) -> None:
    """Half of the workers would accept tokens of the old secret, and each would report the same revision."""
    digests = set()
    for content in (b"1" * 32, b"2" * 32, b"1" * 33):
        (tmp_path / "secret").write_bytes(content)
        issuers = issuers_of(settings(a={"secret_file": str(tmp_path / "secret"), "algorithms": ["HS256"]}))
        assert digest_of(keys_in(issuers)) == digest_of(keys_in(issuers))
        assert content.decode() not in digest_of(keys_in(issuers))
        digests.add(digest_of(keys_in(issuers)))
    remote = issuers_of(settings(a={"jwks_url": "https://idp/keys"}, b={"jwks_url": "https://idp/keys"}))
    digests |= {digest_of(keys_in(())), digest_of(keys_in(remote)), digest_of(keys_in(remote[:1]))}
    assert len(digests) == 6

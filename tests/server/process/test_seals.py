"""The operator's sealing secrets: read from files, refused with the file's name, and compared by all workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from signproxy.config.settings import ContextSettings
from signproxy.errors import Refused, SettingsInvalid
from signproxy.inventory.learned.sighting import Staged
from signproxy.model import Principal, TableScope
from signproxy.sealing import SealingSecret
from signproxy.server.process.named_files import MAX_SECRET_BYTES, digest_of
from signproxy.server.process.seals import seals_of, secrets_of
from tests.server.process.sighted import facts

OWN = SealingSecret(b"o" * 32)
STAGED = Staged("lake", facts(), "corp/alice", 60.0)


def written(directory: Path, **contents: bytes) -> ContextSettings:
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    return ContextSettings(secret_files=tuple(str(directory / name) for name in contents), table_tokens=True)


def test_secrets_come_in_their_order_without_a_newline_at_the_end(tmp_path: Path) -> None:
    """The same secret made by `openssl rand -hex 32` and by an editor would be two."""
    settings = written(tmp_path, new=b"n" * 32 + b"\n", old=b"o" * 32 + b"\r\n")
    assert secrets_of(settings) == (SealingSecret(b"n" * 32), SealingSecret(b"o" * 32))


def test_every_fault_is_told_with_its_file(tmp_path: Path) -> None:
    """An operator would mend one file per start."""
    settings = written(tmp_path, short=b"x" * 31, good=b"g" * 32, key=b"-----BEGIN PRIVATE KEY-----" * 3)
    (tmp_path / "good").unlink()
    with pytest.raises(SettingsInvalid) as invalid:
        secrets_of(settings)
    assert [str(finding).replace(str(tmp_path), "DIR") for finding in invalid.value.findings] == [
        "context.secret_files[0]: 'DIR/short' is 31 bytes long; 32 are needed",
        "context.secret_files[1]: 'DIR/good' cannot be read: No such file or directory",
        "context.secret_files[2]: 'DIR/key' is a key or a certificate, not a secret",
    ]


def test_a_wrong_path_does_not_fill_the_memory(tmp_path: Path) -> None:
    """A disk image would be read at every start."""
    with pytest.raises(SettingsInvalid, match=r"context\.secret_files\[0\].*cannot be read"):
        secrets_of(written(tmp_path, image=b"x" * (MAX_SECRET_BYTES + 1)))


def secrets_digest(secrets: tuple[SealingSecret, ...]) -> str:
    return digest_of(secret.reveal() for secret in secrets)


def test_a_rotation_can_be_told_from_its_outside() -> None:
    """A worker that read the old files would not understand what another one sealed, without a word."""
    one, two = SealingSecret(b"1" * 32), SealingSecret(b"2" * 32)
    digests = {secrets_digest(secrets) for secrets in ((), (one,), (two,), (one, two), (two, one), (one, one))}
    assert len(digests) == 6
    assert secrets_digest((one,)) == secrets_digest((SealingSecret(b"1" * 32),))
    # Joined, two secrets must not look like two others.
    assert secrets_digest((SealingSecret(b"a" * 33), SealingSecret(b"a" * 32))) != secrets_digest(
        (SealingSecret(b"a" * 32), SealingSecret(b"a" * 33))
    )


def test_the_servers_own_secret_seals_only_where_the_operator_has_none() -> None:
    """Sidecars that share a secret would not understand each other."""
    theirs = SealingSecret(b"t" * 32)
    settings = ContextSettings(table_tokens=True)
    configured, alone = seals_of(settings, (theirs,), OWN), seals_of(settings, (), OWN)
    other = seals_of(settings, (theirs,), SealingSecret.random())
    assert other.contexts.open(configured.contexts.seal(STAGED), "corp/alice", 0.0) == STAGED
    with pytest.raises(Refused):
        configured.contexts.open(alone.contexts.seal(STAGED), "corp/alice", 0.0)
    assert seals_of(settings, (), OWN).contexts.open(alone.contexts.seal(STAGED), "corp/alice", 0.0) == STAGED


def test_table_tokens_are_off_unless_the_operator_wants_them() -> None:
    """Clients that cannot renew them would be handed some."""
    assert seals_of(ContextSettings(), (), OWN).table_tokens is None
    tokens = seals_of(ContextSettings(table_tokens=True, table_token_seconds=60), (), OWN).table_tokens
    assert tokens is not None
    text = tokens.make(Principal("a/b", "a", "b", 1000.0), "bearer", TableScope("lake", "n", "t"), 0.0)
    assert text is not None
    assert tokens.read(text, 59.9).bearer == "bearer"
    with pytest.raises(Refused, match="token_expired"):
        tokens.read(text, 60.0)


def test_a_create_lasts_as_long_as_the_settings_say() -> None:
    """A job that writes for a day would be refused after an hour, or one that was given up go on for a week."""
    assert seals_of(ContextSettings(staged_seconds=90), (), OWN).contexts.until(10.0) == 100.0

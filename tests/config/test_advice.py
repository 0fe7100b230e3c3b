"""What works and is worth a word: files that others can read, or that cannot be read at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from msgspec import inspect

from signproxy.config import Settings, load_settings
from signproxy.config import advice as module
from signproxy.config.advice import SECRETS, WRITTEN, advice, files_of
from signproxy.config.paths import bare, says

SETTINGS = """
policy: {path: policy}
listen: {tls: {cert_file: tls.crt, key_file: tls.key}}
admin: {tls: {cert_file: tls.crt, key_file: admin.key}}
identity:
  issuers:
    a: {issuer: a, audiences: [x], secret_file: secret, algorithms: [HS256]}
    b: {issuer: b, audiences: [x], discovery: true, ca_file: ca.crt, token_file: token}
    c: {issuer: c, audiences: [x], key_file: public.pem}
credentials:
  providers:
    keys: {class: static, properties: {access_key_id_file: id, secret_access_key_file: key}}
    other: {class: 'a.b:C', properties: {file: both, ca_file: store.crt, region: x}}
storages:
  lake: {credentials: keys, hosts: [aws], sts: {role: 'arn:aws:iam::1:role/lake-of-all', web_identity_token_file: web}}
audit: {sink: file, path: audit}
s3:
  enabled: true
  identities: [pod]
  pod: {token_file: pod-token}
  upstream: {ca_file: stores.crt}
"""
PUBLIC = ("policy", "tls.crt", "ca.crt", "public.pem", "store.crt", "stores.crt")
SECRET = ("tls.key", "admin.key", "secret", "token", "id", "key", "both", "pod-token", "web")


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that others may enter, unlike those of pytest."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        (directory / "s.yaml").write_text(SETTINGS)
        for file in (*PUBLIC, *SECRET):
            (directory / file).touch()
            (directory / file).chmod(0o644 if file in PUBLIC else 0o600)
        yield directory


def advised(directory: Path, file: str = "") -> list[str]:
    settings = load_settings(directory / "s.yaml", {})
    return [str(finding).replace(str(directory), "DIR") for finding in advice(settings, file)]


def test_well_kept_files_are_not_talked_about(directory: Path) -> None:
    """A warning at every start is one that is not read."""
    assert advised(directory, str(directory / "s.yaml")) == []


def test_secrets_that_every_user_can_read_are_told(directory: Path) -> None:
    """Every other process of the machine could sign, without a warning."""
    for file in SECRET:
        (directory / file).chmod(0o644)
    told = "can be read by every user here (mode 0644); in Kubernetes, set defaultMode: 0440"
    assert advised(directory) == [
        f"{path}: 'DIR/{file}' {told}"
        for path, file in (
            ("listen.tls.key_file", "tls.key"),
            ("admin.tls.key_file", "admin.key"),
            ("s3.pod.token_file", "pod-token"),
            ("identity.issuers.a.secret_file", "secret"),
            ("identity.issuers.b.token_file", "token"),
            ("credentials.providers.keys.properties.access_key_id_file", "id"),
            ("credentials.providers.keys.properties.secret_access_key_file", "key"),
            ("credentials.providers.other.properties.file", "both"),
            ("storages.lake.sts.web_identity_token_file", "web"),
        )
    ]


@pytest.mark.parametrize(("mode", "told"), ((0o640, False), (0o604, True), (0o601, False), (0o606, True)))
def test_it_is_the_others_who_count(directory: Path, mode: int, told: bool) -> None:
    """Kubernetes gives files of a pod to its group, where they belong."""
    (directory / "key").chmod(mode)
    assert bool(advised(directory)) is told


def test_a_closed_directory_keeps_others_out(directory: Path) -> None:
    """Files below the home of a service would be warned about for nothing."""
    (directory / "key").chmod(0o644)
    assert advised(directory)
    directory.chmod(0o750)
    assert advised(directory) == []


def test_the_file_counts_and_not_the_link(directory: Path) -> None:
    """Volumes of Kubernetes hold links, which every user may read."""
    (directory / "..data").mkdir(mode=0o755)
    (directory / "key").rename(directory / "..data" / "key")
    (directory / "key").symlink_to("..data/key")
    assert advised(directory) == []
    (directory / "key").chmod(0o644)
    assert len(advised(directory)) == 1


def test_missing_files_are_told(directory: Path) -> None:
    """A server that starts and is never ready would have to say why first."""
    for name in ("ca.crt", "key", "policy"):
        (directory / name).unlink()
    missing = "cannot be read: No such file or directory"
    assert advised(directory) == [
        f"policy.path: 'DIR/policy' {missing}",
        f"identity.issuers.b.ca_file: 'DIR/ca.crt' {missing}",
        f"credentials.providers.keys.properties.secret_access_key_file: 'DIR/key' {missing}",
    ]


def test_files_of_another_user_are_told(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume without `fsGroup` is the commonest reason for a secret that cannot be read."""
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "key" and access(path, mode))
    assert advised(directory) == [
        "credentials.providers.keys.properties.secret_access_key_file: 'DIR/key' cannot be read by this user"
    ]


def test_frozen_mounts_are_told(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotation would change a file, and nothing else."""

    def all_but_policy(paths: dict[Path, str]) -> Iterator[Path]:
        return (path for path in paths if path.name in ("key", "s.yaml"))

    monkeypatch.setattr(module, "frozen_mounts", all_but_policy)
    told = "is mounted by itself (subPath): its changes are never seen; mount the directory"
    assert advised(directory, str(directory / "s.yaml")) == [
        f"credentials.providers.keys.properties.secret_access_key_file: 'DIR/key' {told}",
        f"DIR/s.yaml: 'DIR/s.yaml' {told}",
    ]


@pytest.mark.parametrize(("mode", "told"), ((0o755, False), (0o777, True), (0o1777, False), (0o2777, True)))
def test_a_socket_that_others_can_replace_is_told(directory: Path, mode: int, told: bool) -> None:
    """A user who puts another socket in its place is sent the tokens of all clients."""
    (directory / "run").mkdir()
    (directory / "run").chmod(mode)
    (directory / "s.yaml").write_text(SETTINGS.replace("listen: {", "listen: {socket: run/s.sock, "))
    problem = f"listen.socket: in 'DIR/run', every user here can replace the socket by another (mode {mode:04o})"
    assert advised(directory) == ([problem] if told else [])
    (directory / "run").rmdir()
    assert advised(directory) == []


def test_every_file_of_the_settings_is_known() -> None:
    """A new setting would name a secret that no rule watches over."""
    found = {f"{struct.__name__}.{name}" for struct, name in _declared(inspect.type_info(Settings))}
    known = {f"{struct.__name__}.{name}" for struct, name in SECRETS | WRITTEN}
    assert known < found
    assert found - known == {
        "TlsSettings.cert_file",
        "PolicySettings.path",
        "IssuerSettings.key_file",
        "IssuerSettings.ca_file",
        "ProviderSettings.properties",
        "UpstreamSettings.ca_file",
        "S3UpstreamSettings.ca_file",
        "ShipSettings.ca_file",
    }


def test_what_signproxy_writes_is_not_read(directory: Path) -> None:
    """The audit trail would be watched for changes, of which there are many."""
    files = list(files_of(load_settings(directory / "s.yaml", {})))
    assert {named.file.name for named in files} == {*PUBLIC, *SECRET}
    assert {named.file.name for named in files if named.secret} == {*SECRET}


def _declared(kind: inspect.Type) -> Iterator[tuple[type[msgspec.Struct], str]]:
    match bare(kind):
        case inspect.StructType(cls=cls, fields=fields):
            for field in fields:
                if says(field.type, "path") or says(field.type, "file_properties"):
                    yield cls, field.name
                else:
                    yield from _declared(field.type)
        case inspect.DictType(value_type=value_type):
            yield from _declared(value_type)
        case inspect.VarTupleType(item_type=item_type):
            yield from _declared(item_type)
        case _:
            pass

"""The pod's own identity: for callers within the pod, and not for requests that something else brought there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from signproxy.errors import Reason, Refused
from signproxy.identity.pod_caller import LOOK_SECONDS, Peer, PodIdentity, TokenFile
from signproxy.model import Principal
from tests.identity.rig import Clock

LOCAL = Peer(is_loopback=True)
UNIX = Peer(is_unix=True, uid=1000)
HOST = (("host", "127.0.0.1:8182"),)


def identity(directory: Path, *uids: int) -> PodIdentity:
    """Return a pod whose token names the principal that the file says."""
    file = directory / "token"
    if not file.exists():
        file.write_text("pod\n")
    return PodIdentity(TokenFile(file), frozenset(uids), lambda token: Principal(f"k8s/{token}", "k8s", token, 2e9))


def name(of: PodIdentity, peer: Peer = LOCAL, headers: tuple[tuple[str, str], ...] = HOST) -> str:
    found, token = of.identify(headers, peer)
    assert isinstance(found, Principal)
    assert token == "pod"
    return found.name


def refused(of: PodIdentity, peer: Peer = LOCAL, headers: tuple[tuple[str, str], ...] = HOST) -> Reason:
    with pytest.raises(Refused) as refusal:
        of.identify(headers, peer)
    return refusal.value.reason


def test_a_caller_on_loopback_is_whom_the_pods_token_names(tmp_path: Path) -> None:
    """Clients that cannot be given anything could not be served."""
    assert name(identity(tmp_path)) == "k8s/pod"


@pytest.mark.parametrize("peer", (Peer(), Peer(is_tls=True), Peer(uid=0)))
def test_no_caller_from_beyond_loopback_is_the_pod(peer: Peer, tmp_path: Path) -> None:
    """Every process that reaches the port would have the pod's rights."""
    assert refused(identity(tmp_path), peer) is Reason.PEER_REFUSED


@pytest.mark.parametrize(
    "host",
    (
        "127.0.0.1",
        "127.0.0.1:8182",
        "127.3.2.1:80",
        "localhost",
        "LOCALHOST:8182",
        "localhost.:1",
        "[::1]:8182",
        "acme-lake.localhost:8182",
        "my.bucket.s3.localhost",
    ),
)
def test_every_name_of_loopback_is_taken(host: str, tmp_path: Path) -> None:
    """A client with an endpoint that leads here would be refused for how it is written."""
    assert name(identity(tmp_path), headers=(("host", host),)) == "k8s/pod"


@pytest.mark.parametrize(
    "headers",
    (
        (),
        (("host", ""),),
        (("host", "evil.example"),),
        (("host", "evil.example:8182"),),
        (("host", "localhost.evil.example"),),
        (("host", "127.0.0.1.evil.example"),),
        (("host", "127.0.0.1:8182:1"),),
        (("host", "localhost@evil.example"),),
        (("host", "evil.localhost/x"),),
        (("host", "evillocalhost"),),
        (("host", "127.0.0.1"), ("host", "evil.example")),
        (("host", "::1"),),
    ),
)
def test_a_name_that_was_made_to_lead_here_is_refused(headers: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    """A web page on a host whose name suddenly means 127.0.0.1 would read the lake (DNS rebinding)."""
    assert refused(identity(tmp_path), headers=headers) is Reason.HOST_UNKNOWN


@pytest.mark.parametrize("header", ("origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "sec-fetch-user"))
@pytest.mark.parametrize("peer", (LOCAL, UNIX))
def test_browsers_are_refused(header: str, peer: Peer, tmp_path: Path) -> None:
    """Any page that a user of the machine opens could write through the browser."""
    assert refused(identity(tmp_path), peer, (*HOST, (header, "null"))) is Reason.BROWSER_REFUSED


@pytest.mark.parametrize("header", ("forwarded", "x-forwarded-for", "x-real-ip", "via"))
def test_what_a_proxy_hands_on_is_refused(header: str, tmp_path: Path) -> None:
    """A proxy beside signproxy would make every client that reaches it the pod."""
    assert refused(identity(tmp_path), headers=(*HOST, (header, "10.0.0.9"))) is Reason.PEER_REFUSED


def test_on_a_unix_socket_listed_users_are_the_pod(tmp_path: Path) -> None:
    """Another container's process could use a socket that was meant for one."""
    pod = identity(tmp_path, 1000, 1001)
    assert name(pod, UNIX, (("host", "whatever"),)) == "k8s/pod"
    for uid in (0, 1002, None):
        assert refused(pod, Peer(is_unix=True, uid=uid)) is Reason.PEER_REFUSED


def test_without_a_list_the_sockets_own_mode_decides(tmp_path: Path) -> None:
    """A socket that is guarded by its mode would be of no use."""
    assert name(identity(tmp_path), Peer(is_unix=True, uid=None)) == "k8s/pod"


def test_a_list_of_users_closes_tcp(tmp_path: Path) -> None:
    """A user that is not listed would take the port instead."""
    assert refused(identity(tmp_path, 1000)) is Reason.PEER_REFUSED


def test_a_token_that_is_exchanged_is_taken_up(tmp_path: Path) -> None:
    """The kubelet exchanges it every hour, and the old one ends."""
    clock = Clock()
    file = tmp_path / "token"
    file.write_text("one\n")
    tokens = TokenFile(file, clock)
    assert tokens.current() == "one"
    other = tmp_path / "other"
    other.write_text("two\n")
    other.replace(file)
    assert tokens.current() == "one"
    clock.now += LOOK_SECONDS
    assert tokens.current() == "two"


def test_a_file_that_stays_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each second would cost a reading."""
    clock = Clock()
    (tmp_path / "token").write_text("one")
    tokens = TokenFile(tmp_path / "token", clock)
    assert tokens.current() == "one"
    monkeypatch.setattr("signproxy.identity.pod_caller.read_together", None)
    clock.now += LOOK_SECONDS
    assert tokens.current() == "one"


def test_while_the_file_cannot_be_read_the_last_token_serves(tmp_path: Path) -> None:
    """The moment in which a volume is exchanged would be an outage."""
    clock = Clock()
    file = tmp_path / "token"
    file.write_text("one")
    tokens = TokenFile(file, clock)
    assert tokens.current() == "one"
    file.unlink()
    clock.now += LOOK_SECONDS
    assert tokens.current() == "one"
    file.write_text("two")
    clock.now += LOOK_SECONDS
    assert tokens.current() == "two"


@pytest.mark.parametrize("content", (None, b"", b" \n", b"x" * (17 * 1024)))
def test_without_a_token_no_caller_is_the_pod(content: bytes | None, tmp_path: Path) -> None:
    """A caller would have no name, or a disk image would be read."""
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    tokens = TokenFile(file)
    for _ in range(2):
        with pytest.raises(Refused) as refusal:
            tokens.current()
        assert refusal.value.reason is Reason.KEYS_UNAVAILABLE
    file.write_text("one")
    os.utime(file)
    assert tokens.current() == "one"

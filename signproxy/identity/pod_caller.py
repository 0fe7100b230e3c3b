"""Take a caller from within the pod for the pod itself: the sidecar's own token says who that is.

Being on loopback is no identity. The token is; loopback, or a Unix socket, only decides who may use it. Whatever could
bring others there is refused: a name that is not loopback's (a web page whose host name was made to lead here), a
browser, and a proxy that hands on what it was sent.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import msgspec

from signproxy.documents.files import FileState, read_together, state_of
from signproxy.errors import Reason, Refused
from signproxy.identity.tokens import MAX_TOKEN
from signproxy.model import Principal


class Peer(msgspec.Struct, frozen=True, gc=False):
    """The other end of a connection of the S3 listener, as far as it says anything about who is calling."""

    is_unix: bool = False
    is_loopback: bool = False
    """Of TCP: both its ends are addresses of loopback."""
    is_tls: bool = False
    uid: int | None = None
    """The user of the process behind a Unix socket; None where the system does not tell."""


LOOK_SECONDS = 1.0
"""How often the file is looked at. The kubelet exchanges a token long before it ends."""

# RFC 6761, section 6.3: every name below `localhost` is loopback, and none can be made to resolve to anything else.
_LOOPBACK_NAME = re.compile(
    r"(?:(?:[a-z0-9_-]+\.)*localhost\.?|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])(?::\d{1,5})?", re.IGNORECASE
)
_BROWSER = frozenset({"origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "sec-fetch-user"})
_HANDED_ON = frozenset({"forwarded", "x-forwarded-for", "x-real-ip", "via"})


class TokenFile:
    """A token in a file that another process exchanges from time to time."""

    def __init__(self, path: Path, clock: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._clock = clock
        self._look_at = float("-inf")
        self._state: FileState = ()
        self._token = ""

    def current(self) -> str:
        """Return the token; the last one that could be read, while the file cannot be. Raise Refused without any."""
        now = self._clock()
        if now < self._look_at:
            return self._token
        try:
            state = state_of(self._path.stat())
            if state != self._state:
                # Some kilobytes in memory: waiting for another thread would take longer than reading them.
                content = read_together((self._path,), limit=MAX_TOKEN)[0]
                self._token = content.decode("ascii", "replace").strip()
                self._state = state
        except OSError as error:
            if not self._token:
                raise Refused(Reason.KEYS_UNAVAILABLE, f"the pod's own token cannot be read: {error}") from None
        if not self._token:
            raise Refused(Reason.KEYS_UNAVAILABLE, f"{str(self._path)!r} holds no token")
        self._look_at = now + LOOK_SECONDS
        return self._token


class PodIdentity(NamedTuple):
    """Says who a caller from within the pod is, if it may be the pod at all."""

    token: TokenFile
    uids: frozenset[int]
    """The users whose processes may be the pod; empty: all users that reach the socket."""
    authenticate: Callable[[str], Principal | Awaitable[Principal]]

    def identify(self, headers: Sequence[tuple[str, str]], peer: Peer) -> tuple[Principal | Awaitable[Principal], str]:
        """Return whom the pod's own token names, and the token. Raise Refused for a caller that may be any process."""
        if peer.is_unix:
            if self.uids and peer.uid not in self.uids:
                raise Refused(Reason.PEER_REFUSED, f"user {'unknown' if peer.uid is None else peer.uid}")
        elif not peer.is_loopback:
            raise Refused(Reason.PEER_REFUSED, "from beyond loopback")
        elif self.uids:
            raise Refused(Reason.PEER_REFUSED, "users are listed, and TCP does not tell whose process it is")
        else:
            check_loopback_name(headers)
        check_direct(headers)
        token = self.token.current()
        return self.authenticate(token), token


def check_loopback_name(headers: Sequence[tuple[str, str]]) -> None:
    """Refuse a request that was not sent to a name of loopback; names of headers are in lower case. Raise Refused."""
    hosts = [value for name, value in headers if name == "host"]
    if len(hosts) != 1 or not _LOOPBACK_NAME.fullmatch(hosts[0]):
        raise Refused(Reason.HOST_UNKNOWN, f"Host {', '.join(hosts)!r} is no name of loopback")


def check_direct(headers: Sequence[tuple[str, str]]) -> None:
    """Refuse a request of a browser, and one that a proxy handed on. Raise Refused."""
    for name, _ in headers:
        if name in _BROWSER:
            raise Refused(Reason.BROWSER_REFUSED, f"the header {name}")
        if name in _HANDED_ON:
            raise Refused(Reason.PEER_REFUSED, f"handed on by a proxy, which the header {name} tells of")

"""Exchange a caller's token for one that the upstream accepts (RFC 8693)."""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from time import time
from urllib.parse import quote_plus, urlencode

import aiohttp
import msgspec
import yarl

from signproxy.catalog.flights import Flights
from signproxy.catalog.upstream_fault import fault_of
from signproxy.catalog.upstream_spec import CallTimeouts, ExchangedToken
from signproxy.errors import Reason, Refused

MAX_ANSWER = 64 * 1024
"""Bytes; a token has 16 KiB at most."""

REMEMBERED = 4096
"""Callers' tokens whose exchange is remembered; some 5 KiB each at most."""

MARGIN_SECONDS = 10.0
"""A token that ends sooner would be refused on its way."""

UNSAID_SECONDS = 60.0
"""How long a token is used whose answer does not say when it ends."""

_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type's name

_OUR_FAULT = frozenset({"invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_target"})
"""Errors of RFC 6749 and 8693 that no other token of the caller's would mend."""


class _Issued(msgspec.Struct, frozen=True):
    """What the authorization server answers; the rest of it is of no use here."""

    access_token: str
    expires_in: float | None = None


class _Refusal(msgspec.Struct, frozen=True):
    error: str = ""


_decode_issued = msgspec.json.Decoder(_Issued).decode
_decode_refusal = msgspec.json.Decoder(_Refusal).decode


class TokenExchange:
    """Asks once for each token of a caller, and remembers the answer until one of the two tokens ends."""

    def __init__(
        self,
        settings: ExchangedToken,
        session: aiohttp.ClientSession,
        times: CallTimeouts,
        *,
        clock: Callable[[], float] = time,
    ) -> None:
        self._settings = settings
        self._session = session
        self._times = times
        self._clock = clock
        self._flights: Flights[bytes, str] = Flights()
        # By the SHA-256 of the caller's whole token: no two callers share an entry.
        self._known: OrderedDict[bytes, tuple[float, str]] = OrderedDict()

    async def token_for(self, bearer: str, expires_at: float) -> str:
        """Return the upstream's token for a caller's, whose own end is at `expires_at`. Raise Refused."""
        digest = hashlib.sha256(bearer.encode()).digest()
        known = self._known.get(digest)
        if known is not None and self._clock() < known[0]:
            return known[1]
        return await self._flights.join(digest, lambda: self._exchange(bearer, digest, expires_at))

    async def aclose(self) -> None:
        """End what is under way."""
        await self._flights.aclose()

    async def _exchange(self, bearer: str, digest: bytes, expires_at: float) -> str:
        status, content = await self._ask(bearer)
        if status != 200:
            raise _refused(status, content)
        try:
            issued = _decode_issued(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise Refused(Reason.UPSTREAM_INVALID, "token exchange: the answer holds no token") from None
        if not issued.access_token.isascii() or not issued.access_token.isprintable() or " " in issued.access_token:
            raise Refused(Reason.UPSTREAM_INVALID, "token exchange: the token is none that a header can hold")
        now = self._clock()
        life = UNSAID_SECONDS if issued.expires_in is None else issued.expires_in - MARGIN_SECONDS
        self._remember(digest, min(now + life, expires_at), issued.access_token)
        return issued.access_token

    async def _ask(self, bearer: str) -> tuple[int, bytes]:
        settings = self._settings
        fields = {
            "grant_type": _GRANT,
            "subject_token": bearer,
            "subject_token_type": _ACCESS_TOKEN,
            "requested_token_type": _ACCESS_TOKEN,
            "audience": settings.audience,
            "scope": settings.scope,
            "resource": settings.resource,
        }
        # RFC 6749, section 2.3.1: both parts are form-encoded before they are joined.
        client = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret.reveal())}"
        headers = {
            "Authorization": f"Basic {base64.b64encode(client.encode()).decode('ascii')}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        times = self._times
        try:
            async with self._session.post(
                yarl.URL(settings.url, encoded=True),
                data=urlencode({name: value for name, value in fields.items() if value}).encode("ascii"),
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=times.load, connect=times.connect, sock_connect=times.connect),
            ) as response:
                return response.status, await _bounded(response)
        except (aiohttp.ClientError, OSError) as error:
            raise Refused(Reason.UPSTREAM_UNAVAILABLE, f"token exchange: {fault_of(error).problem}") from None

    def _remember(self, digest: bytes, until: float, token: str) -> None:
        self._known.pop(digest, None)
        if len(self._known) >= REMEMBERED:
            self._known.popitem(last=False)
        self._known[digest] = (until, token)


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    while part := await response.content.readany():
        content += part
        if len(content) > MAX_ANSWER:
            raise Refused(Reason.UPSTREAM_INVALID, f"token exchange: more than {MAX_ANSWER} bytes")
    return bytes(content)


def _refused(status: int, content: bytes) -> Refused:
    """Return what an exchange that failed means: the caller's token is not accepted, or something is wrong here."""
    try:
        error = _decode_refusal(content).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        error = ""
    told = f"token exchange: status {status}, error {error[:80]!r}"
    if status in (400, 401, 403) and error and error not in _OUR_FAULT:
        return Refused(Reason.UPSTREAM_UNAUTHORIZED, told)
    if 300 <= status < 400:
        return Refused(Reason.UPSTREAM_INVALID, told)
    return Refused(Reason.UPSTREAM_UNAVAILABLE, told)

"""Ask a session service for one session: AssumeRole with the storage's own credentials, or with a web identity."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Protocol

import msgspec

from signproxy.credentials.aws import outcome, session_client
from signproxy.credentials.credentials import Credentials
from signproxy.credentials.failure import FailureKind, NotObtained
from signproxy.credentials.threads import Threads
from signproxy.errors import Reason, Refused
from signproxy.s3.storage import Storage, StorageKind
from signproxy.telemetry.log import get_logger
from signproxy.vending.policy_language import PolicyLanguage
from signproxy.vending.vended import VendedKeys

if TYPE_CHECKING:
    from botocore.client import BaseClient

MIN_SECONDS, MAX_SECONDS = 900, 43_200
"""What STS accepts."""
CHAINED_SECONDS = 3600
"""The longest that a session lasts which another session asked for."""
MARGIN_SECONDS = 30
"""How much sooner than it has to a session ends that may not outlive a token: clocks differ, and answers take time."""
AHEAD_SECONDS = 300
"""How much longer than was asked for a session may seem to last: the clock of the service may be ahead."""
LEAST_SECONDS = 600
"""A session with less life left is no use: clients replace theirs five minutes before its end, and until then others
are given it too. No service was asked for less than MIN_SECONDS."""
ASK_SECONDS = 20.0
"""A service that has not answered by then is not available."""
AT_A_TIME = 8
"""Questions to one service that may be under way."""
PACKED_PERCENT = 80
"""From which share of what a service packs policy and tags into there is a warning."""

MAX_NAME = 64
PRINCIPAL = "{principal}"
"""Stands in a tag for the caller."""

_NOT_IN_NAMES = re.compile(r"[^\w+=,.@-]", re.ASCII)
_NOT_IN_TAGS = re.compile(r"[^A-Za-z0-9_.:/=+\-@ ]")
_MAX_TAG = 256
_DIGITS = 12

_log = get_logger("signproxy.vending")


class SessionSource(msgspec.Struct, frozen=True, kw_only=True):
    """How sessions for a storage are asked for, as the operator set it."""

    storage: Storage
    role: str
    external_id: str = ""
    seconds: int = CHAINED_SECONDS
    region: str = ""
    """Of the session service; empty for the storage's."""
    endpoint: str = ""
    """Another service than Amazon's."""
    web_identity_token_file: Path | None = None
    """The token of the pod, which is shown in place of a signature."""
    tags: tuple[tuple[str, str], ...] = ()
    source_identity: bool = False
    """Name the caller as the source identity, which the store's own log keeps over chains of roles."""
    language: PolicyLanguage = PolicyLanguage()
    """What the store makes of a session policy."""

    def __repr__(self) -> str:
        # Without the external id: it is what keeps a stranger from using the role through us.
        return f"SessionSource({self.storage.name!r}, role={self.role!r}, endpoint={self.endpoint!r})"


class SessionWanted(msgspec.Struct, frozen=True):
    """What one session is to be."""

    policy: str
    principal: str
    event_id: str
    bucket: str
    latest: float | None


class OwnCredentials(Protocol):
    """The credentials that the server has itself."""

    def current_of_any(self, storage: Storage, bucket: str) -> Credentials:
        """Return those for a bucket, or raise Refused."""


class SessionService:
    """The session service of one storage. It remembers nothing of what it gave."""

    def __init__(self, source: SessionSource, own: OwnCredentials, *, clock: Callable[[], float] = time) -> None:
        self.source = source
        self._own = own
        self._clock = clock
        self._threads = Threads(AT_A_TIME)
        self._lock = threading.Lock()
        self._client: tuple[Credentials | None, BaseClient] | None = None

    def __repr__(self) -> str:
        return f"SessionService({self.source!r})"

    async def ask(self, question: SessionWanted) -> VendedKeys:
        """Return a session that ends in time, or raise Refused."""
        source = self.source
        own = None
        if source.web_identity_token_file is None:
            own = self._own.current_of_any(source.storage, question.bucket)
        seconds = self._seconds(own, question.latest)
        name = session_name(question.principal, question.event_id)
        parameters = self._parameters(question, name, seconds)
        secrets = [source.external_id, *([] if own is None else [own.secret_access_key, own.session_token])]
        packed: list[int] = []
        call = self._threads.run(lambda: outcome(lambda: self._session(own, parameters, packed), secrets))
        try:
            async with asyncio.timeout(ASK_SECONDS):
                given = await call
        except TimeoutError:
            given = NotObtained(FailureKind.TIMEOUT, f"nothing within {ASK_SECONDS:.0f} s")
        if isinstance(given, NotObtained):
            raise refusal_of(given)
        if packed and packed[0] >= PACKED_PERCENT:
            _log.warning("a session policy hardly fits", storage=source.storage.name, packed_percent=packed[0])
        self._check(given, own, seconds, question.latest)
        assert given.expires_at is not None  # noqa: S101 - checked above
        return VendedKeys(
            access_key_id=given.access_key_id,
            secret_access_key=given.secret_access_key,
            session_token=given.session_token,
            expires_at=given.expires_at,
            session_name=name,
            policy_digest=sha256(question.policy.encode()).hexdigest(),
        )

    def aclose(self) -> None:
        """Close the connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client[1].close()

    def _seconds(self, own: Credentials | None, latest: float | None) -> int:
        seconds = self.source.seconds
        if own is not None and own.session_token:
            seconds = min(seconds, CHAINED_SECONDS)
        if latest is not None:
            left = int(latest - self._clock()) - MARGIN_SECONDS
            if left < MIN_SECONDS:
                detail = f"the token ends in {left + MARGIN_SECONDS} s; a session lasts {MIN_SECONDS} s at least"
                raise Refused(Reason.SESSION_TOO_SHORT, detail)
            seconds = min(seconds, left)
        return seconds

    def _parameters(self, question: SessionWanted, name: str, seconds: int) -> dict[str, object]:
        source, principal = self.source, question.principal
        parameters: dict[str, object] = {
            "RoleArn": source.role,
            "RoleSessionName": name,
            "DurationSeconds": seconds,
            "Policy": question.policy,
        }
        if source.web_identity_token_file is not None:
            # What else there is to say of the caller is said by the token.
            return parameters
        if source.external_id:
            parameters["ExternalId"] = source.external_id
        if source.source_identity:
            parameters["SourceIdentity"] = _known_as(principal, _NOT_IN_NAMES, MAX_NAME)
        if source.tags:
            caller = _known_as(principal, _NOT_IN_TAGS, _MAX_TAG)
            tags = [{"Key": key, "Value": caller if value == PRINCIPAL else value} for key, value in source.tags]
            parameters["Tags"] = tags
        return parameters

    def _session(self, own: Credentials | None, parameters: Mapping[str, object], packed: list[int]) -> Credentials:
        """Ask, and wait for the answer."""
        client = self._client_of(own)
        file = self.source.web_identity_token_file
        if file is None:
            answer = client.assume_role(**parameters)
        else:
            token = file.read_text(encoding="ascii").strip()
            answer = client.assume_role_with_web_identity(WebIdentityToken=token, **parameters)
        with suppress(KeyError):
            packed.append(int(answer["PackedPolicySize"]))
        given = answer["Credentials"]
        expires_at = given["Expiration"].timestamp()
        arn = answer.get("AssumedRoleUser", {}).get("Arn") or ""
        if "/" in arn and not arn.endswith(f"/{parameters['RoleSessionName']}"):
            # The name is this question's alone: some cache on the way gives the keys of another caller or table.
            raise NotObtained(FailureKind.MALFORMED, "the answer is for a session of another name")
        return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], expires_at)

    def _client_of(self, own: Credentials | None) -> BaseClient:
        """Return the client that asks with these credentials; to make one takes longer than to ask."""
        with self._lock:
            if self._client is None or self._client[0] is not own:
                source = self.source
                if not source.endpoint and source.storage.kind is not StorageKind.AWS:
                    # Amazon's would get a signature of another store's keys.
                    raise NotObtained(FailureKind.CONFIGURATION, "no endpoint of the store's session service is set")
                made = session_client(source.storage, own, region=source.region, endpoint=source.endpoint)
                self._client = own, made
            return self._client[1]

    def _check(self, given: Credentials, own: Credentials | None, seconds: int, latest: float | None) -> None:
        """Refuse an answer that is no session of ours, or does not live as long as it should."""
        left = (given.expires_at or 0.0) - self._clock()
        problem = ""
        if not given.session_token:
            problem = "no session token: such keys know no policy"
        elif own is not None and given.access_key_id == own.access_key_id:
            problem = "the very keys that it was asked with"
        elif left < LEAST_SECONDS:
            problem = f"a session with {left:.0f} s left; compare this machine's clock with the service's"
        elif left > seconds + AHEAD_SECONDS or (latest is not None and given.expires_at > latest):  # type: ignore[operator]  # it has time left
            problem = f"a session with {left:.0f} s left, and {seconds} s were asked for; compare the clocks"
        if problem:
            raise Refused(Reason.SESSIONS_INVALID, problem)


def session_name(principal: str, event_id: str) -> str:
    """Return the name of a session: the store's log shows it, and it leads to the event."""
    tail = f"-{_NOT_IN_NAMES.sub('-', event_id)}"[: MAX_NAME // 2]
    # The end of a principal says more than its beginning, which is the issuer.
    return f"sp-{_NOT_IN_NAMES.sub('-', principal)[-(MAX_NAME - 3 - len(tail)) :]}{tail}"


def refusal_of(failure: NotObtained) -> Refused:
    """Return what a caller is told of a failure."""
    if failure.code == "PackedPolicyTooLarge":
        return Refused(Reason.SCOPE_TOO_LARGE, str(failure))
    match failure.kind:
        case FailureKind.THROTTLED:
            reason = Reason.SESSIONS_THROTTLED
        case FailureKind.TIMEOUT | FailureKind.UNAVAILABLE | FailureKind.EXPIRED:
            reason = Reason.SESSIONS_UNAVAILABLE
        case FailureKind.MALFORMED:
            reason = Reason.SESSIONS_INVALID
        case _:
            reason = Reason.SESSIONS_REFUSED
    return Refused(reason, str(failure))


def _known_as(principal: str, strange: re.Pattern[str], longest: int) -> str:
    """Return what a caller is called where not every character may stand, so that two callers stay two."""
    name = strange.sub("_", principal)
    if name == principal and len(name) <= longest:
        return name
    digest = sha256(principal.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{name[-(longest - _DIGITS - 1) :]}-{digest}"

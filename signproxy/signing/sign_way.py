"""Sign: the way of a request that the client sends itself, once it has the signature."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter_ns
from typing import NamedTuple, cast

import msgspec
from msgspec.structs import replace

from signproxy.answers.api_way import ApiWay
from signproxy.answers.bodies import MAX_BULK_MESSAGE, MAX_MESSAGE, read_whole
from signproxy.answers.reply import NO_CACHE, PRIVATE, Reply, answer
from signproxy.audit.event import rfc3339
from signproxy.catalog.carried import Carried, read_carried
from signproxy.credentials.store import CredentialStore
from signproxy.errors import Reason, Refused
from signproxy.gate import work
from signproxy.gate.events import APP_MARK, application_in
from signproxy.gate.gate import Gate
from signproxy.gate.judgement import Judgement
from signproxy.gate.order import Judge
from signproxy.gate.outcome import KEY_ID_SHOWN, Outcome
from signproxy.gate.request import AskedFor
from signproxy.identity.authenticator import Authenticator
from signproxy.inventory.learned.asked import SealedContext
from signproxy.model import Subject
from signproxy.s3.request import WireRequest
from signproxy.s3.storage import Stamp
from signproxy.signing.sign import RequestSigner
from signproxy.signing.steering import Steering

BODY_TIMEOUT = 10.0
"""Seconds for the body of a sign request to arrive; real ones come with the first packets."""

# Looking a member up in its class calls Python code; the hot path does without.
_QUERY = Stamp.QUERY
_WITHOUT_BODY = Reason.DELETE_WITHOUT_BODY


class SigningRooms(NamedTuple):
    """What signs, for one generation of settings."""

    gate: Gate
    authenticator: Authenticator
    credentials: CredentialStore
    signer: RequestSigner
    client_cache: bool
    """Whether GET and HEAD answers may be kept by the client; off unless the operator switched it on."""
    steering: Steering | None
    """Leads what cannot be signed safely to the S3 listener; None where that is switched off."""
    carried: Callable[[str, Subject, float], SealedContext] | None
    """Opens what a sign request brought back; None where no catalog has an upstream."""

    @property
    def for_upstream(self) -> bool:
        """Whether the caller's own token may be shown to an upstream."""
        return self.carried is not None


class SignWay(ApiWay):
    """A request that is to be signed."""

    # What is signed reaches no other process before its event is written.
    acts = False

    rooms: SigningRooms

    def ask(self, subject: Subject | None) -> AskedFor | Awaitable[AskedFor]:
        """Return what is to be signed: the message is read, and charged before. Raise Refused."""
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        body = self.message.body
        if body is None:
            return self._ask_later(subject)
        name = subject.caller.name
        charged = len(body) // work.BYTES_PER_REQUEST
        if charged:
            self.limits.charge(name, charged, perf_counter_ns())
        wire, gate = read_message(body), self.rooms.gate
        if wire.body:
            self.limits.charge(name, work.of_bulk_delete(wire.body), perf_counter_ns(), own=charged)
        # On this way the subject is always known.
        self.judge = cast("Judge", gate.judge_bulk if wire.body else gate.judge)
        query = self.message.query
        if query or wire.properties is not None:
            carried = read_carried(wire.properties, query)
            if carried is not None:
                return self._carrying(carried, subject, wire)
        return AskedFor(self.address, self.target, wire, None, self.bearer, application_of(wire))

    async def _ask_later(self, subject: Subject) -> AskedFor:
        self.lease.take(self.limits.waiting)
        content = self.parsed.content
        whole = content.is_eof()
        body = content.read_nowait() if whole else await read_whole(self.parsed, MAX_BULK_MESSAGE, BODY_TIMEOUT)
        self.message = replace(self.message, body=body)
        asked = self.ask(subject)
        assert isinstance(asked, AskedFor)  # noqa: S101 - the body is there
        return asked

    def _carrying(self, carried: Carried, subject: Subject, wire: WireRequest) -> AskedFor:
        open_later = self.rooms.carried
        context = None
        if carried.context and open_later is not None:
            context = open_later(carried.context, subject, self.request.wall)
        said = carried.application or application_of(wire), carried.query_id
        return AskedFor(self.address, self.target, wire, None, self.bearer, *said, context)

    def serve(self, judgement: Judgement, outcome: Outcome) -> Reply:
        """Return the signed request. Raise Refused."""
        rooms, request = self.rooms, self.request
        judged, allow, subject = judgement.request, judgement.allow, judgement.subject
        assert judged is not None  # noqa: S101 - it was allowed
        assert allow is not None  # noqa: S101 - it was allowed
        credentials = rooms.credentials.current(judged.storage, judged.bucket)
        now = request.wall
        signed = rooms.signer.sign(allow, judged, credentials, event_id=request.event_id, now=now)
        outcome.expires_at = rfc3339(int(now) + rooms.signer.ttl)
        outcome.stamped = judged.storage.stamp is _QUERY
        outcome.access_key_id = credentials.access_key_id[-KEY_ID_SHOWN:]
        cache = NO_CACHE
        # Any other answer could be replayed by the client's cache for another body, or after a revoke.
        if rooms.client_cache and judged.method in ("GET", "HEAD") and subject is not None and not subject.delegated:
            cache = PRIVATE
            outcome.cacheable = True
        reply = answer(signed, request.request_id, cache)
        reply.hold = self.lease.late
        return reply

    def instead(self, judgement: Judgement, outcome: Outcome) -> Reply | None:
        """Return the way to the S3 listener for what only it can judge. Raise Refused where no key is issued."""
        steering, refused = self.rooms.steering, judgement.refused
        if steering is None or refused is None or refused.reason is not _WITHOUT_BODY:
            return None
        catalog = self.rooms.gate.state.catalogs[judgement.catalog]
        steered = steering.steer(self.request, judgement, catalog, outcome)
        if steered is None:
            return None
        outcome.detail = "bulk delete without body, led to the S3 listener"
        return self.finish(answer(steered, self.request.request_id))


class SignMessage(WireRequest, frozen=True, gc=False, kw_only=True):
    """A sign request's body as clients really send it; unknown fields are ignored, optional ones may be null."""

    properties: dict[str, str | None] | None = None
    """What Iceberg 1.12 repeats of a table's `remote-signing-config`, or whatever a client puts there: its own word."""
    provider: str | None = None


def application_of(wire: WireRequest) -> str:
    """Return the application that the S3 request itself names in its user agent; empty where it names none."""
    agents = wire.headers.get("User-Agent")
    # Nearly none does.
    return application_in(agents[0]) if agents and APP_MARK in agents[0] else ""


_decoder = msgspec.json.Decoder(SignMessage)


def read_message(content: bytes) -> SignMessage:
    """Decode the body of a sign request."""
    try:
        message = _decoder.decode(content)
    except msgspec.MsgspecError as error:
        raise Refused(Reason.MESSAGE_MALFORMED, str(error)) from None
    except RecursionError:
        raise Refused(Reason.MESSAGE_MALFORMED, "nested too deeply") from None
    except UnicodeDecodeError:
        raise Refused(Reason.MESSAGE_MALFORMED, "not UTF-8") from None
    # JSON may write a character of the body as six; what is not the body is held to the small limit.
    if len(content) > MAX_MESSAGE and len(content) - 6 * len(message.body or "") > MAX_MESSAGE:
        raise Refused(Reason.BODY_TOO_LARGE, f"{len(content)} bytes around a body of {len(message.body or '')}")
    if message.provider is not None and message.provider.lower() != "s3":
        raise Refused(Reason.PROVIDER_UNSUPPORTED, f"provider {message.provider!r}")
    return message

"""Forward an allowed request: sign it anew, send it on, bring the answer back, and say what became of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter_ns, time
from typing import NamedTuple, Protocol

from signproxy.audit.event import Verdict
from signproxy.credentials.credentials import Credentials
from signproxy.errors import Reason, Refused
from signproxy.forward.addresses import StorageAddresses
from signproxy.forward.answer import REQUEST_ID, Answer
from signproxy.forward.bulk_delete import bound, merged
from signproxy.forward.exchange import Broken, Exchange, ReceivedHead, Side
from signproxy.forward.located import Located
from signproxy.forward.payload import EMPTY_SHA256, SMALL_FRAMED, BodyTransfer, passage_of
from signproxy.forward.pool import Pool
from signproxy.forward.relay import MAX_DOCUMENT, Change, Charge, Relay, collected
from signproxy.forward.repeated import Repeated
from signproxy.forward.resign import Resigner, StoreRequest
from signproxy.forward.store_buckets import every_bucket, query_of
from signproxy.forward.times import Times
from signproxy.forward.underway import Underway
from signproxy.forward.uploads import LISTS, MARKED_ANSWERS, UploadIds, place_of
from signproxy.forward.verdict import SLOW, BodyVerdict
from signproxy.gate.forwarded import Passed, StoreBucket
from signproxy.gate.outcome import ForwardOutcome
from signproxy.gate.turns import in_pieces
from signproxy.s3.hoisted import with_hoisted
from signproxy.s3.operation import Operation
from signproxy.s3.request import S3Request
from signproxy.s3.storage import Stamp, Storage
from signproxy.s3.verify import SeedSignature
from signproxy.transfer.body import Incoming, Outgoing
from signproxy.transfer.channel import Channel
from signproxy.transfer.faults import MessageInvalid, Stalled, Truncated
from signproxy.transfer.head import BodyFraming, RequestHead
from signproxy.transfer.inspect import Inspect

MAX_BODY = 5 * 1024**3
"""S3's own limit of one upload or part."""

# Looking a member up in its class calls Python code; the hot path does without.
_NONE, _SIZED, _CHUNKED = BodyFraming.NONE, BodyFraming.SIZED, BodyFraming.CHUNKED
_COMPLETE = Operation.COMPLETE_MULTIPART_UPLOAD
_GUARDED = (Operation.PUT_OBJECT, _COMPLETE)
_STAMPED = Stamp.QUERY
# SeaweedFS answers 501 where the query of ListObjects has a name that it does not know.
_WITHOUT_STAMP = Operation.LIST_OBJECTS
_REPEATABLE = frozenset(("GET", "HEAD", "PUT", "DELETE"))
_WITH_BODY = frozenset(("PUT", "POST"))
_WITHOUT = BodyTransfer(_NONE)
_OK, _FAILED = 200, 500
_LISTS_NONE = (403, 405, 501)
"""Its keys may not list buckets, or it knows no such list."""
_NO_BODY = "Content-Length: 0\r\n"
_IN_CHUNKS = "Transfer-Encoding: chunked\r\n"


class CurrentCredentials(Protocol):
    """What a storage's requests are signed with."""

    def current(self, storage: Storage, bucket: str) -> Credentials:
        """Return the credentials for a bucket, or raise Refused. Never waits."""
        ...


class Forwarder:
    """Forwards what the gate let pass; one per process."""

    __slots__ = (
        "_addresses",
        "_clock",
        "_credentials",
        "_most",
        "_pool",
        "_resigner",
        "_times",
        "_upload_ids",
    )

    def __init__(
        self,
        credentials: CurrentCredentials,
        addresses: StorageAddresses,
        pool: Pool,
        upload_ids: UploadIds,
        times: Times,
        *,
        max_body: int = MAX_BODY,
        clock: Callable[[], float] = time,
    ) -> None:
        self._credentials = credentials
        self._addresses = addresses
        self._pool = pool
        self._upload_ids = upload_ids
        self._times = times
        self._most = max_body
        self._clock = clock
        self._resigner = Resigner()

    async def forward(  # noqa: PLR0913 - a request has this many parts
        self,
        passed: Passed,
        client: Channel,
        body: Incoming,
        head: RequestHead,
        answer: Answer,
        *,
        event_id: str,
        seed: SeedSignature | None = None,
        document: bytes = b"",
        outcome: ForwardOutcome | None = None,
        underway: Underway | None = None,
        charge: Charge | None = None,
    ) -> ForwardOutcome:
        """Forward a request and return what became of it.

        `event_id` is what it is stamped with; `seed` is what signed chunks go on from; `document` the body of a bulk
        delete, which was read before; `outcome` is filled in any case, and returned; `underway` is this very request
        where the store was sent it already; `charge` is told of a list before it is changed. Raise Refused as long as
        nothing was answered; afterwards a fault ends the client's connection.
        """
        if outcome is None:
            outcome = ForwardOutcome(status=0)
        if underway is not None:
            # Whatever is refused from here on, the store has the request.
            outcome.requests, outcome.stamped = 1, underway.stamped
        request = passed.forwardable.request
        bucket = request.bucket
        credentials = self._credentials.current(request.storage, bucket)
        destination = self._addresses.find(request.storage, bucket)
        passage = _WITHOUT if document else passage_of(passed.forwardable, head, seed)
        outbound = self._outbound(passed, passage, head)
        deletes = passed.forwardable.deletes
        if deletes is not None:
            document = await in_pieces(bound(outbound, document, deletes, request.delete_keys))
        if _is_stamped(request):
            outbound.stamp(event_id)
            outcome.stamped = True
        outcome.payload, outcome.checksum = passed.forwardable.mode._value_, passage.checksum
        exchange = Exchange(self._pool, destination.address, client, self._times, request.method)
        exchange.requests = outcome.requests
        if request.operation in SLOW:
            exchange.be_patient()
        started = perf_counter_ns()
        reusable = False
        try:
            if passage.body is _NONE:
                repeatable = not document and request.method in _REPEATABLE
                message = self._resigner.head(outbound, destination, bucket, credentials, self._clock())
                heard = await exchange.ask(message + document, repeatable=repeatable, underway=underway)
            else:
                sign = partial(self._resigner.head, outbound, destination, bucket, credentials)
                heard = await self._upload(_Upload(passage, outbound, sign, exchange, answer), body)
            reusable = await self._relay(passed, exchange, answer, outcome, heard, charge)
            if client.is_full:
                await client.drained(self._times.client_idle)
        except Broken as broken:
            _break(outcome, broken, client)
        except (ConnectionError, Stalled) as error:
            # Whatever befalls the connection to the store has a name of its own.
            _break(outcome, Broken(Side.CLIENT, Reason.CLIENT_GONE, str(error)), client)
        finally:
            exchange.end(reusable=reusable)
            outcome.status = answer.status
            outcome.requests = exchange.requests
            outcome.bytes_in = exchange.uploaded or len(document)
            outcome.connect_us = exchange.connect_us
            outcome.first_byte_us = exchange.first_byte_us
            outcome.upstream_us = (perf_counter_ns() - started) // 1000
        return outcome

    def repeated(self, passed: Passed, head: RequestHead) -> Repeated:
        """Return what writes requests like this one, which has neither body nor query, for other objects beside it."""
        request = passed.forwardable.request
        destination = self._addresses.find(request.storage, request.bucket)
        outbound = self._outbound(passed, _WITHOUT, head)
        credentials = partial(self._credentials.current, request.storage, request.bucket)
        return Repeated(
            self._pool,
            self._resigner,
            outbound,
            destination,
            request.bucket,
            credentials,
            stamped=_is_stamped(request),
        )

    async def buckets(
        self, storage: Storage, client: Channel, outcome: ForwardOutcome, *, event_id: str, charge: Charge | None = None
    ) -> list[StoreBucket]:
        """Return the buckets of a storage; none where its keys may not list them. Raise Refused.

        `outcome` gets what the store said last; `charge` is told of each page before it is read.
        """
        page = partial(self._page_of_buckets, storage, client, outcome, event_id)
        return await every_bucket(storage, page, charge)

    async def _page_of_buckets(
        self, storage: Storage, client: Channel, outcome: ForwardOutcome, event_id: str, token: str
    ) -> bytes:
        destination = self._addresses.find(storage, "")
        credentials = self._credentials.current(storage, "")
        query = query_of(token)
        outbound = StoreRequest(
            method="GET",
            target=f"/?{query}" if query else "/",
            path="/",
            query=query,
            headers=(),
            signed=(),
            payload=EMPTY_SHA256,
        )
        if storage.stamp is _STAMPED:
            outbound.stamp(event_id)
            outcome.stamped = True
        exchange = Exchange(self._pool, destination.address, client, self._times, "GET")
        started = perf_counter_ns()
        reusable = False
        try:
            message = self._resigner.head(outbound, destination, "", credentials, self._clock())
            head, _ = await exchange.ask(message, repeatable=True)
            document = await collected(exchange.channel, head, MAX_DOCUMENT, self._times.idle)
            reusable = not head.closes
        except Broken as broken:
            raise Refused(broken.reason, broken.detail) from None
        finally:
            exchange.end(reusable=reusable)
            outcome.requests += exchange.requests
            outcome.upstream_us += (perf_counter_ns() - started) // 1000
        outcome.upstream_status = head.status
        outcome.upstream_request_id = head.fields.get(REQUEST_ID, "").partition(",")[0]
        if head.status in _LISTS_NONE:
            return b""
        if head.status != _OK:
            # An empty list would look like a store that lost everything.
            reason = Reason.STORE_UNAVAILABLE if head.status >= _FAILED else Reason.STORE_INVALID
            raise Refused(reason, f"storage {storage.name!r} answered ListBuckets with {head.status}")
        return document

    async def _upload(self, upload: _Upload, body: Incoming) -> ReceivedHead:
        """Send the request with its body, and return the head of the answer."""
        passage, outbound, sign, exchange, answer = upload
        if passage.small:
            # One write carries all of it, and what is wrong with it never begins to reach the store.
            answer.invite()
            content = await _collected(exchange, passage, body)
            outbound.framing = f"Content-Length: {len(content)}\r\n"
            return await exchange.ask(sign(self._clock()) + content, repeatable=False)

        def outgoing(channel: Channel) -> Outgoing:
            return Outgoing(channel, passage.body, passage.length, idle=self._times.idle)

        if passage.body is _CHUNKED:
            exchange.most = self._most + SMALL_FRAMED
        return await exchange.upload(sign(self._clock()), body, outgoing, passage.inspect, answer.invite)

    async def _relay(
        self,
        passed: Passed,
        exchange: Exchange,
        answer: Answer,
        outcome: ForwardOutcome,
        heard: ReceivedHead,
        charge: Charge | None,
    ) -> bool:
        """Bring the answer to the client; return whether the connection to the store can be used again."""
        head = heard.head
        outcome.upstream_status = status = head.status
        # versitygw sends it twice, and what is repeated is joined.
        outcome.upstream_request_id = head.fields.get(REQUEST_ID, "").partition(",")[0]
        if exchange.early:
            answer.closes = True
        relay = Relay(exchange.channel, answer, self._times)
        verdict = None
        change = None
        watch: Inspect | None = None
        if status == 200:
            operation = passed.forwardable.request.operation
            change = self._change(passed)
            if change is None and operation in SLOW:
                verdict = BodyVerdict()
                watch = verdict
                # What came in a coding all the same is passed on: the upload is complete, whatever is told of it.
                if operation is _COMPLETE and "content-encoding" not in head.fields:
                    watch = located = Located(answer.location, verdict)
                    # A length that was announced would not be that of the changed document.
                    change = located.whole if head.body is _SIZED else None
        try:
            if change is not None:
                charge = charge if passed.forwardable.request.operation in LISTS else None
                ended = await relay.change(heard, change, charge)
            else:
                ended = (watch is None and relay.at_once(heard)) or await relay.pass_on(heard, watch)
        finally:
            outcome.bytes_out = relay.sent
            if verdict is not None:
                outcome.completed = verdict.result()
        return ended and not head.closes

    def _outbound(self, passed: Passed, passage: BodyTransfer, head: RequestHead) -> StoreRequest:
        """Return the request as the store will get it, but for the framing of a body that is not read yet."""
        forwardable = passed.forwardable
        request = forwardable.request
        operation = request.operation
        target, query = forwardable.target, request.canonical_query
        if query and "upload" in query:
            place = place_of(passed)
            target, query = self._upload_ids.stripped(place, request.key, target, query)
        if forwardable.hoisted:
            target, query = with_hoisted(target, query, forwardable.hoisted)
        if passage.body is _NONE:
            framing = _NO_BODY if request.method in _WITH_BODY else ""
        else:
            if request.copy_source is not None or request.method not in _WITH_BODY:
                raise Refused(Reason.BODY_UNEXPECTED, f"a body with {request.s3_name}")
            size = forwardable.payload.decoded_length
            size = head.length if size is None else size
            if size > self._most:
                raise Refused(Reason.ENTITY_TOO_LARGE, f"{size} bytes, at most {self._most} are allowed")
            framing = f"Content-Length: {passage.length}\r\n" if passage.body is _SIZED else _IN_CHUNKS
        outbound = StoreRequest(
            method=request.method,
            target=target,
            path=request.canonical_path,
            query=query,
            headers=forwardable.headers,
            signed=request.headers,
            payload=request.payload,
            framing=framing,
        )
        if passed.allow.write_once and operation in _GUARDED:
            outbound.guard()
        if operation in MARKED_ANSWERS or operation in SLOW or passed.refused:
            # What is read, or changed, must not come in a coding.
            outbound.remove("accept-encoding")
        return outbound

    def _change(self, passed: Passed) -> Change | None:
        """Return how the document of an answer is changed; None where it goes to the client as it is."""
        request = passed.forwardable.request
        deletes = passed.forwardable.deletes
        if passed.refused and deletes is not None:
            return partial(merged, deletes=deletes, refused=passed.refused)
        if request.operation in MARKED_ANSWERS:
            return partial(self._upload_ids.marked, place_of(passed), request.operation, request.key)
        return None


class _Upload(NamedTuple):
    """A request with a body, on its way."""

    passage: BodyTransfer
    outbound: StoreRequest
    sign: Callable[[float], bytes]
    """Returns the head, signed at a time."""
    exchange: Exchange
    answer: Answer


def _is_stamped(request: S3Request) -> bool:
    """Whether the store is sent the id of the audit event with a request."""
    return request.storage.stamp is _STAMPED and request.operation is not _WITHOUT_STAMP


async def _collected(exchange: Exchange, passage: BodyTransfer, body: Incoming) -> bytes:
    """Return a small body as the store will get it, all of it found true."""
    pieces: list[bytes | memoryview] = []
    inspect = passage.inspect
    try:
        while piece := await body.read():
            exchange.uploaded += len(piece)
            if exchange.uploaded > SMALL_FRAMED:
                raise Refused(Reason.CHUNK_MALFORMED, "more framing than data")
            if inspect is None:
                pieces.append(piece)
            else:
                pieces += inspect.feed(memoryview(piece))
    except (ConnectionError, Stalled, Truncated, MessageInvalid) as error:
        raise exchange.collect_fault(error) from None
    if inspect is not None:
        pieces += inspect.finish()
    return b"".join(pieces)


def _break(outcome: ForwardOutcome, broken: Broken, client: Channel) -> None:
    """Take down that the conversation ended in its middle; an answer that goes no further must not look whole."""
    client.abort()
    outcome.verdict = Verdict.ERROR
    outcome.reason = broken.reason
    outcome.detail = broken.detail
    outcome.aborted = broken.side.value

"""Forward an allowed request: sign it anew, send it on, bring the answer back, and say what became of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter_ns, time
from typing import NamedTuple

from signproxy.audit.event import Verdict
from signproxy.credentials.credentials import Credentials
from signproxy.errors import Reason, Refused
from signproxy.forward.addresses import StorageAddresses
from signproxy.forward.answer import REQUEST_ID, Answer
from signproxy.forward.bulk_delete import bound, merged
from signproxy.forward.exchange import Broken, Exchange, ReceivedHead, Side
from signproxy.forward.payload import SMALL_FRAMED, WITHOUT, BodyTransfer, transfer_of
from signproxy.forward.pool import Pool, Times
from signproxy.forward.relay import SMALL, Change, Charge, Relay
from signproxy.forward.repeated import Repeated
from signproxy.forward.store_buckets import BucketPages, Signed, every_bucket
from signproxy.forward.store_request import Resigner, StoreRequest, store_request
from signproxy.forward.underway import Underway
from signproxy.forward.uploads import LISTS, MARKED_ANSWERS, UploadIds, place_of
from signproxy.forward.verdict import SLOW, BodyVerdict, Located
from signproxy.gate.forwarded import Passed, StoreBucket
from signproxy.gate.outcome import StoreOutcome
from signproxy.gate.turns import in_pieces
from signproxy.s3.operation import Operation
from signproxy.s3.payload import NOTHING_SAID
from signproxy.s3.storage import Storage
from signproxy.s3.verify import SeedSignature
from signproxy.transfer.body import Incoming, Inspect, Outgoing
from signproxy.transfer.channel import Channel
from signproxy.transfer.faults import MessageInvalid, Stalled, Truncated
from signproxy.transfer.head import BodyFraming, RequestHead

MAX_BODY = 5 * 1024**3
"""S3's own limit of one upload or part."""

# Looking a member up in its class calls Python code; the hot path does without.
_NONE, _SIZED, _CHUNKED = BodyFraming.NONE, BodyFraming.SIZED, BodyFraming.CHUNKED
_COMPLETE = Operation.COMPLETE_MULTIPART_UPLOAD
_OK = 200
_REPEATABLE = frozenset(("GET", "HEAD", "PUT", "DELETE"))


CurrentCredentials = Callable[[Storage, str], Credentials]
"""Returns what requests to a bucket of a storage are signed with, or raises Refused. Never waits."""


class Forwarder:
    """Forwards what the gate let pass; one for each generation of settings."""

    __slots__ = ("_clock", "_credentials", "_most", "_pool", "_resigner", "_times", "_upload_ids")

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
        self._resigner = Resigner(addresses)
        self._pool = pool
        self._upload_ids = upload_ids
        self._times = times
        self._most = max_body
        self._clock = clock

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
        outcome: StoreOutcome | None = None,
        underway: Underway | None = None,
        charge: Charge | None = None,
    ) -> StoreOutcome:
        """Forward a request and return what became of it.

        `event_id` is what it is stamped with; `seed` is what signed chunks go on from; `document` the body of a bulk
        delete, which was read before; `outcome` is filled in any case, and returned; `underway` is this very request
        where the store was sent it already; `charge` is told of a list before it is changed. Raise Refused as long as
        nothing was answered; afterwards a fault ends the client's connection.
        """
        outcome = outcome or StoreOutcome(status=0)
        if underway is not None:
            # Whatever is refused from here on, the store has the request.
            outcome.requests, outcome.stamped = 1, underway.stamped
        forwardable = passed.forwardable
        request = forwardable.request
        storage, bucket = request.storage, request.bucket
        signer = self._resigner.find(storage, bucket, self._credentials(storage, bucket))
        is_silent = forwardable.payload is NOTHING_SAID and head.body is _NONE
        transfer = WITHOUT if is_silent or document else transfer_of(forwardable, head, seed)
        outbound = store_request(passed, transfer, head, self._upload_ids, self._most)
        if forwardable.deletes is not None:
            document = await in_pieces(bound(outbound, document, forwardable.deletes, request.delete_keys))
        outbound.stamp(event_id)
        outcome.stamped = outcome.stamped or outbound.stamped
        outcome.payload, outcome.checksum = forwardable.mode._value_, transfer.checksum
        exchange = Exchange(self._pool, signer.address, client, self._times, request.method, outcome)
        if outbound.is_answer_read and request.operation in SLOW:
            exchange.be_patient()
        started, reusable = perf_counter_ns(), False
        try:
            if transfer.body is _NONE:
                message = signer.head(outbound, self._clock()) + document
                repeatable = not document and request.method in _REPEATABLE
                heard = await exchange.ask(message, repeatable=repeatable, underway=underway)
            else:
                sign = partial(signer.head, outbound)
                heard = await self._upload(_Upload(transfer, outbound, sign, exchange, answer), body)
            outcome.upstream_status = heard.head.status
            # versitygw sends it twice, and what is repeated is joined.
            outcome.upstream_request_id = heard.head.fields.get(REQUEST_ID, "").partition(",")[0]
            answer.closes = answer.closes or exchange.early
            if outbound.is_answer_read and outcome.upstream_status == _OK:
                reusable = await self._read(passed, heard, answer, outcome, charge)
            elif (sent := answer.at_once(heard, SMALL)) is not None:
                outcome.bytes_out, reusable = sent, not heard.head.closes
            else:
                reusable = await Relay(answer, self._times, outcome).pass_on(heard)
            if client.is_full:
                await client.drained(self._times.client_idle)
        except (Broken, ConnectionError, Stalled) as error:
            _break(outcome, error, client)
        finally:
            exchange.end(reusable=reusable)
            outcome.status = answer.status
            outcome.bytes_in = outcome.bytes_in or len(document)
            outcome.upstream_us = (perf_counter_ns() - started) // 1000
        return outcome

    def repeated(self, passed: Passed, head: RequestHead) -> Repeated:
        """Return what writes requests like this one, which has neither body nor query, for other objects beside it."""
        request = passed.forwardable.request
        outbound = store_request(passed, WITHOUT, head, self._upload_ids, self._most)
        credentials = partial(self._credentials, request.storage, request.bucket)
        return Repeated(self._pool, self._resigner, outbound, request, credentials)

    async def buckets(
        self, storage: Storage, client: Channel, outcome: StoreOutcome, *, event_id: str, charge: Charge | None = None
    ) -> list[StoreBucket]:
        """Return the buckets of a storage; none where its keys may not list them. Raise Refused.

        `outcome` gets what the store said last; `charge` is told of each page before it is read.
        """

        def sign(request: StoreRequest) -> Signed:
            signer = self._resigner.find(storage, "", self._credentials(storage, ""))
            return Signed(signer.address, signer.head(request, self._clock()))

        pages = BucketPages(storage, sign, self._pool, client, self._times, outcome, event_id)
        return await every_bucket(storage, pages.page, charge)

    async def _upload(self, upload: _Upload, body: Incoming) -> ReceivedHead:
        """Send the request with its body, and return the head of the answer."""
        transfer, outbound, sign, exchange, answer = upload
        if transfer.small:
            # One write carries all of it, and what is wrong with it never begins to reach the store.
            answer.invite()
            content = await _collected(exchange, transfer, body)
            outbound.framing = f"Content-Length: {len(content)}\r\n"
            return await exchange.ask(sign(self._clock()) + content, repeatable=False)

        def outgoing(channel: Channel) -> Outgoing:
            return Outgoing(channel, transfer.body, transfer.length, idle=self._times.idle)

        if transfer.body is _CHUNKED:
            exchange.most = self._most + SMALL_FRAMED
            # versitygw may stop where S3's own chunks end, and take the end of those around them for the next request:
            # its answer to that would be another caller's.
            exchange.is_last = True
        return await exchange.upload(sign(self._clock()), body, outgoing, transfer.inspect, answer.invite)

    async def _read(
        self, passed: Passed, heard: ReceivedHead, answer: Answer, outcome: StoreOutcome, charge: Charge | None
    ) -> bool:
        """Bring an answer to the client whose document is read, or changed, on its way.

        Return whether the connection to the store can be used again.
        """
        head, operation = heard.head, passed.forwardable.request.operation
        relay = Relay(answer, self._times, outcome)
        change = self._change(passed)
        if change is not None:
            return await relay.change(heard, change, charge if operation in LISTS else None)
        verdict = BodyVerdict()
        watch: Inspect = verdict
        # What came in a coding all the same is passed on: the upload is complete, whatever is told of it.
        if operation is _COMPLETE and "content-encoding" not in head.fields:
            watch = located = Located(answer.location, verdict)
            # A length that was announced would not be that of the changed document.
            change = located.whole if head.body is _SIZED else None
        try:
            if change is not None:
                return await relay.change(heard, change)
            return await relay.pass_on(heard, watch)
        finally:
            outcome.completed = verdict.result()

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

    transfer: BodyTransfer
    outbound: StoreRequest
    sign: Callable[[float], bytes]
    """Returns the head, signed at a time."""
    exchange: Exchange
    answer: Answer


async def _collected(exchange: Exchange, transfer: BodyTransfer, body: Incoming) -> bytes:
    """Return a small body as the store will get it, all of it found true."""
    pieces: list[bytes | memoryview] = []
    inspect = transfer.inspect
    try:
        while piece := await body.read():
            exchange.count(len(piece))
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


def _break(outcome: StoreOutcome, error: Exception, client: Channel) -> None:
    """Take down that the conversation ended in its middle; an answer that goes no further must not look whole."""
    client.abort()
    # Whatever befalls the connection to the store has a name of its own.
    broken = error if isinstance(error, Broken) else Broken(Side.CLIENT, Reason.CLIENT_GONE, str(error))
    outcome.verdict = Verdict.ERROR
    outcome.reason = broken.reason
    outcome.detail = broken.detail
    outcome.aborted = broken.side.value

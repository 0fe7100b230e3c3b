"""A listener that forwards everything to one store, as the real one does once a request is allowed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from signproxy.credentials.credentials import Credentials
from signproxy.errors import Refused
from signproxy.forward.addresses import StorageAddresses
from signproxy.forward.answer import Answer
from signproxy.forward.forward import Forwarder
from signproxy.forward.pool import Pool, Times
from signproxy.forward.relay import Charge
from signproxy.forward.uploads import UploadIds
from signproxy.gate.forwarded import Passed, RefusedKey
from signproxy.gate.outcome import StoreOutcome
from signproxy.model import Allow, TableId, VolumeId
from signproxy.s3.bulk_delete import read_bulk_delete
from signproxy.s3.canonical import canonical_path, canonical_query
from signproxy.s3.forwarded import FORWARDED, Forwardable
from signproxy.s3.operation import Operation
from signproxy.s3.outbound import outbound_of
from signproxy.s3.payload import Payload, PayloadMode
from signproxy.s3.query import parse_query
from signproxy.s3.request import ObjectRef, S3Request
from signproxy.s3.storage import S3Endpoint, Storage, StorageKind, Style
from signproxy.s3.uri import decode_once
from signproxy.s3.verify import SeedSignature
from signproxy.sealing import MIN_SECRET, Marker, Purpose, SealingSecret
from signproxy.transfer.body import Incoming
from signproxy.transfer.channel import Channel
from signproxy.transfer.head import HOP_BY_HOP, RequestHead, read_request_head
from tests.waiting import until

KEYS = {"AKIAEXAMPLE0000STORE": "store+secret"}
CREDENTIALS = Credentials("AKIAEXAMPLE0000STORE", "store+secret")
EVENT_ID = "01KABCDEFGHJKMNPQRSTVWXYZ0"
REQUEST_ID = "request-1"
NOW = 1_800_000_000.0
QUICK = Times(connect=1, answer=0.4, slow_answer=1.5, idle=0.4, client_idle=0.4, keepalive=1)
"""Limits that a test can wait for; the gap between the two for an answer can be told apart."""

_NOT_SENT_ON = HOP_BY_HOP | {"host", "authorization", "content-length", "expect", "x-amz-date", "x-amz-content-sha256"}


class _Rule(NamedTuple):
    rule_id: str = "writer@catalog:lake"


class Keys:
    """Credentials that a test can exchange or take away."""

    def __init__(self) -> None:
        self.now: Credentials | Refused = CREDENTIALS

    def current(self, storage: Storage, bucket: str) -> Credentials:
        if isinstance(self.now, Refused):
            raise self.now
        return self.now


def storage(port: int, scheme: str = "http", *, accepts_chunked_transfer: bool = False, looks: bool = True) -> Storage:
    """Return a store; one that looks compares bodies with their hashes and trailers."""
    endpoint = S3Endpoint(scheme, f"127.0.0.1:{port}", (Style.PATH,))
    return Storage(
        "store",
        StorageKind.S3_COMPATIBLE,
        "us-east-1",
        ("data",),
        (endpoint,),
        checks_unsigned_headers=True,
        checks_payload_hash=looks,
        checks_trailers=looks,
        accepts_chunked_transfer=accepts_chunked_transfer,
    )


class Story(msgspec.Struct, kw_only=True):
    """What the gate would have said, beside what stands in the request itself."""

    operation: Operation | None = None
    payload: Payload | None = None
    refused: tuple[RefusedKey, ...] = ()
    write_once: bool = False
    seed: SeedSignature | None = None
    document: bytes = b""
    table: str = "t1"
    volume: str = ""
    delete_keys: tuple[str, ...] = ()
    copy_source: ObjectRef | None = None


PLAIN = Story()
_OPERATIONS = {
    "GET": Operation.GET_OBJECT,
    "HEAD": Operation.HEAD_OBJECT,
    "PUT": Operation.PUT_OBJECT,
    "POST": Operation.COMPLETE_MULTIPART_UPLOAD,
    "DELETE": Operation.DELETE_OBJECT,
}


def passed_of(store: Storage, head: RequestHead, story: Story) -> Passed:
    """Return what the gate makes of a request, without asking whether it may be."""
    raw_path, _, raw_query = head.target.partition("?")
    sent = [(head.names[n], header[1]) for n, header in enumerate(head.headers) if header[0] not in _NOT_SENT_ON]
    signed = sorted(
        # As bytes they are UTF-8, and signed as what they mean; runs of blanks count as one.
        (name.lower(), " ".join(value.encode("latin-1").decode().split()))
        for name, value in sent
        if name.lower().startswith(("x-amz-", "content-"))
    )
    payload = story.payload or payload_of(head.fields.get("x-amz-content-sha256") or "UNSIGNED-PAYLOAD")
    parameters = parse_query(raw_query) if raw_query else {}
    request = S3Request(
        operation=story.operation or _OPERATIONS[head.method],
        method=head.method,
        uri="",
        storage=store,
        bucket="data",
        key=decode_once(raw_path).removeprefix("/data/"),
        host=outbound_of(store, "data").host,
        canonical_path=canonical_path(decode_once(raw_path)),
        canonical_query=canonical_query(parameters.items()),
        headers=tuple(signed),
        payload=payload.sent,
        delete_keys=story.delete_keys,
        copy_source=story.copy_source,
    )
    forwardable = Forwardable(
        request=request,
        target=head.target,
        headers=tuple(sent),
        mode=payload.mode,
        payload=payload,
        outbound=outbound_of(store, "data"),
        deletes=read_bulk_delete(story.document, FORWARDED) if story.document else None,
    )
    table = TableId("lake", "ns", story.table) if story.table else None
    volume = VolumeId("lake", story.volume) if story.volume else None
    allow = Allow(table, _Rule(), write_once=story.write_once, volume=volume)
    return Passed(allow, forwardable, story.refused)


def payload_of(declared: str) -> Payload:
    if declared == "UNSIGNED-PAYLOAD":
        return Payload(PayloadMode.UNSIGNED, declared)
    return Payload(PayloadMode.HASHED, declared, sent=declared)


class _Served(Channel):
    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self._rig = rig

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        task = asyncio.get_running_loop().create_task(self._rig.converse(self))
        self._rig.tasks.add(task)
        task.add_done_callback(self._rig.tasks.discard)


class Rig:
    """The listener, and what it took down."""

    def __init__(self, store: Storage, times: Times = QUICK, *, connections: int = 64) -> None:
        self.store = store
        self.times = times
        self.pool = Pool(times, connections=connections)
        self.keys = Keys()
        self.ca_file = ""
        self.story = PLAIN
        self.charge: Charge | None = None
        self.max_body = 5 * 1024**3
        self.outcomes: list[StoreOutcome] = []
        self.refusals: list[Refused] = []
        self.failures: list[BaseException] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.forwarder = self.forwarder_now()

    def forwarder_now(self) -> Forwarder:
        """Return a forwarder by the fields as they are."""
        marker = Marker((SealingSecret(b"s" * MIN_SECRET),), Purpose.UPLOAD_ID)
        addresses = StorageAddresses(self.ca_file)
        return Forwarder(
            self.keys.current,
            addresses,
            self.pool,
            UploadIds(marker),
            self.times,
            max_body=self.max_body,
            clock=lambda: NOW,
        )

    async def converse(self, client: Channel) -> None:
        try:
            while not client.closed and await self._exchange(client):
                pass
            if not client.closed:
                await client.linger(0.5, 1024 * 1024)
        except OSError:
            # A client that is gone is lost in whichever way the kernel says it.
            client.abort()
        except BaseException as failure:
            self.failures.append(failure)
            client.abort()
            raise

    async def _exchange(self, client: Channel) -> bool:
        raw = await client.head(32 * 1024, 5)
        if raw is None:
            return False
        head = read_request_head(raw)
        answer = Answer(client, head, EVENT_ID, REQUEST_ID)
        body = Incoming(client, head.body, head.length, idle=self.times.client_idle)
        story = self.story
        if story.document:
            answer.invite()
            while await body.read():
                pass
        try:
            outcome = await self.forwarder.forward(
                passed_of(self.store, head, story),
                client,
                body,
                head,
                answer,
                event_id=EVENT_ID,
                seed=story.seed,
                document=story.document,
                charge=self.charge,
            )
        except Refused as refused:
            assert not answer.begun
            self.refusals.append(refused)
            text = refused.reason.code.encode()
            client.write(
                b"HTTP/1.1 599 Refused\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(text), text)
            )
            return False
        self.outcomes.append(outcome)
        return body.ended and not answer.closes

    async def settled(self) -> None:
        """Wait until no conversation is under way."""
        await until(lambda: not self.tasks)


@contextlib.asynccontextmanager
async def serving_rig(rig: Rig) -> AsyncIterator[Rig]:
    """Serve, and prove afterwards that nothing is left of it: no task, no connection, no descriptor."""
    server = await asyncio.get_running_loop().create_server(lambda: _Served(rig), "127.0.0.1", 0)
    rig.port = server.sockets[0].getsockname()[1]
    try:
        yield rig
        await rig.settled()
        assert not rig.failures, rig.failures
        assert rig.pool.open == rig.pool.idle, "a connection to the store was neither given back nor closed"
    finally:
        server.close()
        await server.wait_closed()
        await rig.pool.aclose()
        for task in rig.tasks:
            task.cancel()
        await asyncio.gather(*rig.tasks, return_exceptions=True)
    await until(lambda: not rig.pool.open)


def descriptors() -> int:
    """Return how many sockets are open; pipes are kept for the next transfer."""
    gc.collect()
    found = 0
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - the directory itself is open while it is read
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/self/fd/{number}").startswith("socket:")  # noqa: PTH115 - no path
    return found


class Client:
    """A client that sends and reads whatever a test says."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> bytes:
        async with asyncio.timeout(8):
            return await self.reader.readuntil(b"\r\n\r\n")

    async def answer(self) -> tuple[bytes, bytes]:
        """Return head and body of the next answer, by its Content-Length or chunks."""
        head = await self.head()
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        async with asyncio.timeout(8):
            if b"content-length" in fields:
                return head, await self.reader.readexactly(int(fields[b"content-length"]))
            body = b""
            if fields.get(b"transfer-encoding") == b"chunked":
                while size := int(await self.reader.readline(), 16):
                    body += await self.reader.readexactly(size)
                    await self.reader.readexactly(2)
                await self.reader.readexactly(2)
            return head, body

    async def rest(self) -> bytes:
        """Return what comes until the connection ends, whichever way."""
        data = b""
        async with asyncio.timeout(8):
            with contextlib.suppress(ConnectionError):
                while piece := await self.reader.read(65_536):
                    data += piece
        return data


@contextlib.asynccontextmanager
async def connected(rig: Rig) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def request(method: str = "GET", target: str = "/data/key", headers: str = "", body: bytes = b"") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {target} HTTP/1.1\r\nHost: s3.local\r\n{headers}{length}\r\n".encode("latin-1") + body

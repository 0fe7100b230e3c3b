"""Make of a request that was judged the one that its store gets, and write its head.

It is the client's own, byte for byte where it can be, under a signature of signproxy's own.
"""

from __future__ import annotations

import msgspec

from signproxy.credentials.credentials import Credentials
from signproxy.errors import Reason, Refused
from signproxy.forward.addresses import Address, Destination, StorageAddresses
from signproxy.forward.payload import EMPTY_SHA256, BodyTransfer
from signproxy.forward.uploads import MARKED_ANSWERS, UploadIds, place_of
from signproxy.forward.verdict import SLOW
from signproxy.gate.forwarded import Passed
from signproxy.s3.hoisted import with_hoisted
from signproxy.s3.operation import GUARDED_WRITES, Operation
from signproxy.s3.sigv4 import Moment, SigningKey, amz_date
from signproxy.s3.storage import STAMP, Stamp, Storage
from signproxy.transfer.head import BodyFraming, RequestHead

# Looking a member up in its class calls Python code; the hot path does without.
_NONE, _SIZED = BodyFraming.NONE, BodyFraming.SIZED
_STAMPED = Stamp.QUERY
# SeaweedFS answers 501 where the query of ListObjects has a name that it does not know.
_WITHOUT_STAMP = Operation.LIST_OBJECTS
_READ_ANSWERS = (*MARKED_ANSWERS, *SLOW)
_WITH_BODY = frozenset(("PUT", "POST"))
_NO_BODY = "Content-Length: 0\r\n"
_IN_CHUNKS = "Transfer-Encoding: chunked\r\n"
_GUARD = ("If-None-Match", "*")
_LINE = ": ".join

_SIGNERS_KEPT = 1024
"""Buckets; where clients make their own, their names are the clients' to choose."""


class StoreRequest(msgspec.Struct, gc=False):
    """A request as the store will get it: the client's own, changed where its body is changed."""

    method: str
    target: str
    """Path and query as the client sent them, the bucket where the store wants it, and the stamp behind them."""
    path: str
    """The canonical form of the path, which is signed."""
    query: str
    """The canonical form of the query, which is signed."""
    headers: tuple[tuple[str, str], ...]
    """Name as spelled and value exactly; without Host, framing, date, payload hash and credentials."""
    signed: tuple[tuple[str, str], ...]
    """Those of the headers that are signed: lower-case names, folded values."""
    payload: str
    """The value of x-amz-content-sha256."""
    framing: str = ""
    """The header line that says where the body ends; empty for a request that has none."""
    stamped: bool = False
    """Whether its store is sent the id of the audit event with it."""
    is_answer_read: bool = False
    """Whether the document of its answer is read, or changed, on its way to the client."""

    def stamp(self, event_id: str) -> None:
        """Let the store's own log name the audit event, where it takes that.

        The name sorts after every name that a query may have.
        """
        if not self.stamped:
            return
        stamp = f"{STAMP}={event_id}"
        if self.query:
            self.target, self.query = f"{self.target}&{stamp}", f"{self.query}&{stamp}"
        else:
            # An empty query keeps its question mark.
            self.target, self.query = f"{self.target.removesuffix('?')}?{stamp}", stamp

    def guard(self) -> None:
        """Let the write fail where the object exists: `overwrite: forbid`."""
        if not any(name.lower() == "if-none-match" for name, _ in self.headers):
            self.headers = (*self.headers, _GUARD)
        if not any(name == "if-none-match" for name, _ in self.signed):
            self.signed = (*self.signed, ("if-none-match", "*"))

    def replace(self, name: str, value: str) -> None:
        """Give a header another value; its spelling and place stay."""
        self.headers = tuple([(spelled, value if spelled.lower() == name else old) for spelled, old in self.headers])
        self.signed = tuple([(each, value if each == name else old) for each, old in self.signed])

    def add(self, name: str, value: str) -> None:
        """Put a header in that is not there."""
        self.headers = (*self.headers, (name, value))
        self.signed = tuple(sorted((*self.signed, (name.lower(), value))))

    def remove(self, name: str) -> None:
        """Take a header out."""
        self.headers = tuple([header for header in self.headers if header[0].lower() != name])
        self.signed = tuple([header for header in self.signed if header[0] != name])


def store_request(
    passed: Passed, transfer: BodyTransfer, head: RequestHead, upload_ids: UploadIds, most: int
) -> StoreRequest:
    """Return the request as the store will get it, but for the stamp, and the framing of a body that is not read yet.

    Raise Refused for a body that the operation has not, or that is longer than `most` bytes.
    """
    forwardable = passed.forwardable
    request = forwardable.request
    operation = request.operation
    target, query = forwardable.target, request.canonical_query
    if query and "upload" in query:
        target, query = upload_ids.stripped(place_of(passed), request.key, target, query)
    if forwardable.hoisted:
        target, query = with_hoisted(target, query, forwardable.hoisted)
    if transfer.body is _NONE:
        framing = _NO_BODY if request.method in _WITH_BODY else ""
    else:
        framing = _framing_of(passed, transfer, head, most)
    is_stamped = request.storage.stamp is _STAMPED and operation is not _WITHOUT_STAMP
    is_answer_read = operation in _READ_ANSWERS or bool(passed.refused)
    outbound = StoreRequest(
        request.method, target, request.canonical_path, query, forwardable.headers, request.headers, request.payload,
        framing, is_stamped, is_answer_read,
    )  # fmt: skip
    if passed.allow.write_once and operation in GUARDED_WRITES:
        outbound.guard()
    if is_answer_read:
        # It must not come in a coding.
        outbound.remove("accept-encoding")
    return outbound


def bucket_list(storage: Storage, query: str) -> StoreRequest:
    """Return the request for a page of a storage's buckets."""
    target = f"/?{query}" if query else "/"
    return StoreRequest("GET", target, "/", query, (), (), EMPTY_SHA256, stamped=storage.stamp is _STAMPED)


def _framing_of(passed: Passed, transfer: BodyTransfer, head: RequestHead, most: int) -> str:
    """Return the header line that says where a body ends."""
    request = passed.forwardable.request
    if request.copy_source is not None or request.method not in _WITH_BODY:
        raise Refused(Reason.BODY_UNEXPECTED, f"a body with {request.s3_name}")
    size = passed.forwardable.payload.decoded_length
    size = head.length if size is None else size
    if size > most:
        raise Refused(Reason.ENTITY_TOO_LARGE, f"{size} bytes, at most {most} are allowed")
    return f"Content-Length: {transfer.length}\r\n" if transfer.body is _SIZED else _IN_CHUNKS


class Second:
    """What heads have in common that are written within one second, and differ in target and some headers alone."""

    __slots__ = ("_after", "_before", "_between", "_moment", "method", "number", "payload")

    def __init__(
        self, number: int, request: StoreRequest, moment: Moment, *, before: str, between: str, after: str
    ) -> None:
        self.number = number
        """Unix time."""
        self.method = request.method
        self.payload = request.payload
        self._moment = moment
        self._before = before
        self._between = between
        self._after = after

    def head(self, target: str, path: str, query: str, lines: str, framing: str = "") -> bytes:
        """Return the bytes of the head, its empty line included.

        `target` is sent, and its canonical `path` and `query` are signed; `lines` are the client's headers and
        `framing` that of the body, with their ends.
        """
        authorization = self._moment.authorization(path, query)
        # Characters of a value stand for the bytes that the client sent.
        return (f"{self._before}{target}{self._between}{lines}{self._after}{authorization}\r\n{framing}\r\n").encode(
            "latin-1"
        )


class BucketSigner:
    """Writes the heads of requests for one bucket, for as long as its credentials are current."""

    __slots__ = ("_host", "_key", "_second", "_token", "address", "credentials", "storage")

    def __init__(self, destination: Destination, credentials: Credentials) -> None:
        self.storage = destination.storage
        self.credentials = credentials
        self.address: Address = destination.address
        """Where the bucket is served."""
        self._host = destination.outbound.host
        self._key = SigningKey(credentials.access_key_id, credentials.secret_access_key, self.storage.region)
        self._token = credentials.session_token
        self._second: Second | None = None

    def head(self, request: StoreRequest, now: float) -> bytes:
        """Return the bytes of the head, its empty line included."""
        number = int(now)
        second = self._second
        if (
            second is None
            or second.number != number
            or request.signed
            or second.method != request.method
            or second.payload != request.payload
        ):
            second = self.second(request, number)
            if not request.signed:
                self._second = second
        headers = request.headers
        lines = "\r\n".join([*map(_LINE, headers), ""]) if headers else ""
        return second.head(request.target, request.path, request.query, lines, request.framing)

    def second(self, request: StoreRequest, number: int) -> Second:
        """Return what writes the heads of requests that sign the same headers, for one second."""
        date, host, token = amz_date(number), self._host, self._token
        moment = self._key.moment(request.method, host, request.signed, request.payload, date, token)
        told = f"x-amz-security-token: {token}\r\n" if token else ""
        return Second(
            number,
            request,
            moment,
            before=f"{request.method} ",
            between=f" HTTP/1.1\r\nHost: {host}\r\n",
            after=f"x-amz-content-sha256: {request.payload}\r\nx-amz-date: {date}\r\n{told}Authorization: ",
        )


class Resigner:
    """Finds what signs for a bucket: one for each storage and bucket, for its current credentials."""

    __slots__ = ("_addresses", "_signers")

    def __init__(self, addresses: StorageAddresses) -> None:
        self._addresses = addresses
        self._signers: dict[tuple[str, str], BucketSigner] = {}

    def find(self, storage: Storage, bucket: str, credentials: Credentials) -> BucketSigner:
        """Return what signs for a bucket."""
        signer = self._signers.get((storage.name, bucket))
        if signer is None or signer.credentials is not credentials or signer.storage is not storage:
            if len(self._signers) >= _SIGNERS_KEPT:
                self._signers.clear()
            signer = BucketSigner(self._addresses.find(storage, bucket), credentials)
            self._signers[storage.name, bucket] = signer
        return signer

"""Write the head of a request to a store: the client's target and headers byte for byte, and a signature of our own."""

from __future__ import annotations

import msgspec

from signproxy.credentials.credentials import Credentials
from signproxy.forward.addresses import Destination
from signproxy.s3.sigv4 import Moment, SigningKey, amz_date
from signproxy.s3.storage import STAMP

_KEPT = 1024
"""Buckets; where clients make their own, their names are the clients' to choose."""

_GUARD = ("If-None-Match", "*")


class StoreRequest(msgspec.Struct, gc=False, kw_only=True):
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

    def stamp(self, event_id: str) -> None:
        """Let the store's own log name the audit event. The name sorts after every name that a query may have."""
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


class _Slot(msgspec.Struct, frozen=True, gc=False):
    """What is made once of the credentials of a bucket, for as long as they are current."""

    credentials: Credentials
    region: str
    key: SigningKey
    token: str
    token_line: str


class Second:
    """What heads have in common that are written within one second, and differ in target and some headers alone."""

    __slots__ = ("_after", "_before", "_between", "_moment", "credentials", "number")

    def __init__(
        self, number: int, credentials: Credentials, moment: Moment, *, before: str, between: str, after: str
    ) -> None:
        self.number = number
        """Unix time."""
        self.credentials = credentials
        self._moment = moment
        self._before = before
        self._between = between
        self._after = after

    def head(self, path: str, query: str, lines: str) -> bytes:
        """Return the bytes of the head; `lines` are the client's headers, with their ends."""
        authorization = self._moment.authorization(path, query)
        target = f"{path}?{query}" if query else path
        return f"{self._before}{target}{self._between}{lines}{self._after}{authorization}\r\n\r\n".encode("latin-1")


class Resigner:
    """Sign with cached derived keys; one slot for each storage and bucket, for its current credentials."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: dict[tuple[str, str], _Slot] = {}

    def head(
        self, request: StoreRequest, destination: Destination, bucket: str, credentials: Credentials, now: float
    ) -> bytes:
        """Return the bytes of the head, its empty line included."""
        slot = self._slot(destination, bucket, credentials)
        date = amz_date(int(now))
        host = destination.outbound.host
        authorization = slot.key.authorization(
            request.method, host, request.path, request.query, request.signed, request.payload, date, slot.token
        )
        lines = "".join([f"{name}: {value}\r\n" for name, value in request.headers]) if request.headers else ""
        # Characters of a value stand for the bytes that the client sent.
        return (
            f"{request.method} {request.target} HTTP/1.1\r\nHost: {host}\r\n{lines}"
            f"x-amz-content-sha256: {request.payload}\r\nx-amz-date: {date}\r\n{slot.token_line}"
            f"Authorization: {authorization}\r\n{request.framing}\r\n"
        ).encode("latin-1")

    def second(
        self, request: StoreRequest, destination: Destination, bucket: str, credentials: Credentials, second: int
    ) -> Second:
        """Return what writes the heads of requests without a body, for one second."""
        slot = self._slot(destination, bucket, credentials)
        date = amz_date(second)
        host = destination.outbound.host
        moment = slot.key.moment(request.method, host, request.signed, request.payload, date, slot.token)
        return Second(
            second,
            credentials,
            moment,
            before=f"{request.method} ",
            between=f" HTTP/1.1\r\nHost: {host}\r\n",
            after=f"x-amz-content-sha256: {request.payload}\r\nx-amz-date: {date}\r\n{slot.token_line}Authorization: ",
        )

    def _slot(self, destination: Destination, bucket: str, credentials: Credentials) -> _Slot:
        storage = destination.storage
        slot = self._slots.get((storage.name, bucket))
        if slot is None or slot.credentials is not credentials or slot.region != storage.region:
            slot = self._fill(storage.name, storage.region, bucket, credentials)
        return slot

    def _fill(self, storage: str, region: str, bucket: str, credentials: Credentials) -> _Slot:
        if len(self._slots) >= _KEPT:
            self._slots.clear()
        token = credentials.session_token
        key = SigningKey(credentials.access_key_id, credentials.secret_access_key, region)
        line = f"x-amz-security-token: {token}\r\n" if token else ""
        slot = self._slots[storage, bucket] = _Slot(credentials, region, key, token, line)
        return slot

"""Write the head of a request to a store: the client's target and headers byte for byte, and a signature of our own."""

from __future__ import annotations

from signproxy.credentials.credentials import Credentials
from signproxy.forward.addresses import Address, Destination, StorageAddresses
from signproxy.forward.store_request import StoreRequest
from signproxy.s3.sigv4 import Moment, SigningKey, amz_date
from signproxy.s3.storage import Storage

_LINE = ": ".join

_KEPT = 1024
"""Buckets; where clients make their own, their names are the clients' to choose."""


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
            if len(self._signers) >= _KEPT:
                self._signers.clear()
            signer = BucketSigner(self._addresses.find(storage, bucket), credentials)
            self._signers[storage.name, bucket] = signer
        return signer

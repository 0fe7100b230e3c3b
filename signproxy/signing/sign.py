"""Sign an allowed request: stamp its URI, guard it if the table forbids overwriting, and answer the headers."""

from __future__ import annotations

import msgspec

from signproxy.credentials.credentials import Credentials
from signproxy.model import Allow
from signproxy.s3.request import S3Request
from signproxy.s3.sigv4 import SigningKey, amz_date
from signproxy.s3.storage import STAMP, Stamp

S3_WINDOW = 900
"""Seconds that S3 accepts a signature before and after its date."""
MIN_SIGNATURE_TTL = 60
"""Clocks differ, and Java's signature cache keeps an answer for 30 s: shorter lives would fail honest requests."""

_QUERY = Stamp.QUERY
# SeaweedFS verifies a signature for the path and host that these claim, from any sender (seaweedfs #7068,
# #7223), and serves the real ones: one signature would reach every object. Signed as empty they cannot be added.
_PINNED = (("x-forwarded-host", ""), ("x-forwarded-prefix", ""))


class SignedRequest(msgspec.Struct, frozen=True, gc=False):
    """What the client needs to send its own request: the URI to use and the headers to add."""

    uri: str
    headers: dict[str, list[str]]


class _Slot(msgspec.Struct, frozen=True, gc=False):
    """What is made once of a storage's credentials, for as long as they are current."""

    credentials: Credentials
    region: str
    key: SigningKey
    token: str


class RequestSigner:
    """Sign with cached derived keys; one per storage and bucket, for its current credentials."""

    __slots__ = ("_back_dated", "_slots", "ttl")

    def __init__(self, signature_ttl: int = S3_WINDOW) -> None:
        if not MIN_SIGNATURE_TTL <= signature_ttl <= S3_WINDOW:
            raise ValueError(f"signature_ttl must lie between {MIN_SIGNATURE_TTL} and {S3_WINDOW} seconds")
        self.ttl = signature_ttl
        # S3 has no shorter life for header signatures: dating them back ends them earlier.
        self._back_dated = S3_WINDOW - signature_ttl
        self._slots: dict[tuple[str, str], _Slot] = {}

    def sign(
        self, allow: Allow, request: S3Request, credentials: Credentials, *, event_id: str, now: float
    ) -> SignedRequest:
        """Return the signed request; only headers that the signer adds, never a changed copy of a client's."""
        slot = self._slots.get((request.storage.name, request.bucket))
        if slot is None or slot.credentials is not credentials or slot.region != request.storage.region:
            slot = self._fill(request, credentials)
        uri, query, headers = request.uri, request.canonical_query, request.headers
        if request.storage.stamp is _QUERY:
            # The name sorts after every query name that the operation table knows, so it is always appended.
            stamp = f"{STAMP}={event_id}"
            uri = f"{uri}&{stamp}" if query else f"{uri}?{stamp}"
            query = f"{query}&{stamp}" if query else stamp
        if allow.write_once:
            headers = (*headers, ("if-none-match", "*"))
        if request.storage.pins_forwarded_headers:
            headers = (*headers, *_PINNED)
        date = amz_date(int(now) - self._back_dated)
        authorization = slot.key.authorization(
            request.method, request.host, request.canonical_path, query, headers, request.payload, date, slot.token
        )
        answer = {
            "Authorization": [authorization],
            "X-Amz-Date": [date],
            "x-amz-content-sha256": [request.payload],
        }
        if slot.token:
            answer["X-Amz-Security-Token"] = [slot.token]
        if allow.write_once:
            answer["If-None-Match"] = ["*"]
        if request.storage.pins_forwarded_headers:
            answer |= {"X-Forwarded-Host": [""], "X-Forwarded-Prefix": [""]}
        return SignedRequest(uri, answer)

    def _fill(self, request: S3Request, credentials: Credentials) -> _Slot:
        storage = request.storage
        access_key_id = credentials.access_key_id
        key = SigningKey(access_key_id, credentials.secret_access_key, storage.region)
        slot = _Slot(credentials, storage.region, key, credentials.session_token)
        self._slots[storage.name, request.bucket] = slot
        return slot

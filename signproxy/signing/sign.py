"""Sign an allowed request: stamp its URI, guard it if the table forbids overwriting, and answer the headers."""

from __future__ import annotations

import msgspec

from signproxy.credentials.credentials import Credentials
from signproxy.model import Allow
from signproxy.s3.request import S3Request
from signproxy.s3.sigv4 import SigningKey, amz_date
from signproxy.s3.storage import Stamp

STAMP = "x-signproxy-id"
"""Query parameter that carries the audit event's id into the store's own log."""

S3_WINDOW = 900
"""Seconds that S3 accepts a signature before and after its date."""
MIN_SIGNATURE_TTL = 60
"""Clocks differ, and Java's signature cache keeps an answer for 30 s: shorter lives would fail honest requests."""

_QUERY = Stamp.QUERY


class SignedRequest(msgspec.Struct, frozen=True, gc=False):
    """What the client needs to send its own request: the URI to use and the headers to add."""

    uri: str
    headers: dict[str, list[str]]


class RequestSigner:
    """Sign with cached derived keys; one key per storage's current credentials."""

    __slots__ = ("_back_dated", "_keys", "signature_ttl")

    def __init__(self, signature_ttl: int = S3_WINDOW) -> None:
        if not MIN_SIGNATURE_TTL <= signature_ttl <= S3_WINDOW:
            raise ValueError(f"signature_ttl must lie between {MIN_SIGNATURE_TTL} and {S3_WINDOW} seconds")
        self.signature_ttl = signature_ttl
        # S3 has no shorter life for header signatures: dating them back ends them earlier.
        self._back_dated = S3_WINDOW - signature_ttl
        self._keys: dict[tuple[str, str], tuple[Credentials, SigningKey]] = {}

    def sign(
        self, allow: Allow, request: S3Request, credentials: Credentials, *, event_id: str, now: float
    ) -> SignedRequest:
        """Return the signed request; only headers that the signer adds, never a changed copy of a client's."""
        uri, query, headers = request.uri, request.canonical_query, request.headers
        if request.storage.stamp is _QUERY:
            # The name sorts after every query name that the operation table knows, so it is always appended.
            joint = "&" if query else ""
            uri = f"{uri}{'&' if '?' in uri else '?'}{STAMP}={event_id}"
            query = f"{query}{joint}{STAMP}={event_id}"
        if allow.write_once:
            headers = tuple(sorted((*headers, ("if-none-match", "*"))))
        date = amz_date(int(now) - self._back_dated)
        token = credentials.session_token
        answer = {
            "Authorization": [
                self._key(request, credentials).authorization(
                    request.method,
                    request.host,
                    request.canonical_path,
                    query,
                    headers,
                    request.payload,
                    date,
                    token,
                )
            ],
            "X-Amz-Date": [date],
            "x-amz-content-sha256": [request.payload],
        }
        if token:
            answer["X-Amz-Security-Token"] = [token]
        if allow.write_once:
            answer["If-None-Match"] = ["*"]
        return SignedRequest(uri, answer)

    def _key(self, request: S3Request, credentials: Credentials) -> SigningKey:
        storage = request.storage
        slot = (storage.name, request.bucket)
        held = self._keys.get(slot)
        if held is not None and held[0] is credentials and held[1].region == storage.region:
            return held[1]
        key = SigningKey(credentials.access_key_id, credentials.secret_access_key, storage.region)
        self._keys[slot] = (credentials, key)
        return key

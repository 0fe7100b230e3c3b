"""Build the requests that the tests of the forward way share."""

from __future__ import annotations

from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.s3.forward_wire import ForwardWire
from signproxy.s3.forwarded import Forwardable, classify_forwarded
from signproxy.s3.rules import KeyRules, OperationsAllowed, Rules
from signproxy.s3.storage import Storage
from tests.s3.world import KEY, MINIO

TABLE = Rules()
OBJECT = Rules(OperationsAllowed.OBJECT, KeyRules.STRICT)
ALL = Rules(OperationsAllowed.ALL, KeyRules.S3)
ALL_STRICT = Rules(OperationsAllowed.ALL, KeyRules.STRICT)

LITERAL = replace(MINIO, literal_keys=True, checks_trailers=True, accepts_chunked_transfer=True)
"""A store that is like AWS."""


def asked(
    method: str = "GET",
    raw_key: str = KEY,
    raw_query: str | None = None,
    headers: dict[str, str] | None = None,
    *,
    bucket: str = "lake",
    body: bytes | None = None,
    payload: str = "",
    hoisted: tuple[tuple[str, str], ...] = (),
) -> ForwardWire:
    """Return a request as the listener hands it on; headers as a client spells them."""
    sent = headers or {}
    return ForwardWire(
        method=method,
        bucket=bucket,
        raw_key=raw_key,
        raw_query=raw_query,
        headers=tuple((name.lower(), value) for name, value in sent.items()),
        names=tuple(sent),
        body=body,
        payload=payload,
        hoisted=hoisted,
    )


def passes(wire: ForwardWire, rules: Rules = TABLE, storage: Storage = MINIO) -> Forwardable:
    """Return the classified request; a refusal fails the test with its detail."""
    return classify_forwarded(storage, wire, rules)


def outcome(wire: ForwardWire, rules: Rules = TABLE, storage: Storage = MINIO) -> Forwardable | Reason:
    """Return the classified request, or the reason of its refusal."""
    try:
        return classify_forwarded(storage, wire, rules)
    except Refused as refused:
        return refused.reason

"""Run one input: its first byte chooses caller and route, the rest is the body of a sign request."""

from __future__ import annotations

from signproxy.errors import Reason
from tests.properties.world import CALLERS, Signed, attempt, check_signed

PATHS = (
    "/s3-sign/v1/lake/namespaces/ns/tables/t1",
    "/s3-sign/v1/lake/namespaces/ns/tables/two",
    "/s3-sign/v1/lake/namespaces/ns/tables/once",
    "/v1/lake/namespaces/ns/tables/sealed/sign",
    "/v1/lake/namespaces/ns/tables/odd/sign",
    "/v1/lake/namespaces/ns/tables/small/sign",
    "/lake/v1/aws/s3/sign",
    "/located/v1/aws/s3/sign",
    "/nested/v1/aws/s3/sign",
)
CHOICES = tuple((who, path) for who in CALLERS for path in PATHS)


def prefix_of(who: str, path: str) -> bytes:
    """Return the first byte that chooses a caller and a route."""
    return bytes([CHOICES.index((who, path))])


def run(data: bytes) -> Reason:
    """Return what became of an input. Anything but a refusal and a sound signature raises."""
    who, path = CHOICES[data[0] % len(CHOICES)] if data else CHOICES[0]
    outcome = attempt(who, path, data[1:])
    if isinstance(outcome, Signed):
        check_signed(outcome)
        return Reason.ALLOWED
    return outcome.reason

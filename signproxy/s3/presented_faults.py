"""Say what is wrong with a signature that was not read: the slow way, part by part, in the order in which S3 looks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from signproxy.errors import Reason, Refused
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.sigv4 import ALGORITHM

MAX_EXPIRES = 7 * 24 * 3600
"""S3's own limit of a presigned URL."""

_VERSION_2 = "AWS"
_ECDSA = "AWS4-ECDSA-P256-SHA256"
_TERMINAL = "aws4_request"
_COMPONENTS = ("Credential", "SignedHeaders", "Signature")
_SCOPE_PARTS = 5
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY = 2
_SHOWN = 32
"""Characters of a word that is told again: a longer one may be a secret in the wrong place."""
_NUMBER = re.compile(r"[+\-]?[0-9]+")
_AMZ_DATE = re.compile(r"[0-9]{8}T[0-9]{6}Z")


def fault_of_authorization(value: str) -> Refused:
    """Return why an Authorization header is no signature of S3's. Its value stands in no detail: it may be a secret."""
    told = f"an Authorization of {len(value)} characters is no {ALGORITHM} one"

    def malformed(fault: Fault, *facts: str) -> Refused:
        return S3Refused(Reason.AUTHORIZATION_MALFORMED, fault, *facts, detail=told)

    algorithm, blank, rest = value.partition(" ")
    if not blank:
        return malformed(Fault.AUTHORIZATION_FORM, "Authorization", _shown(value))
    if algorithm == _VERSION_2:
        return malformed(Fault.SIGNATURE_VERSION)
    if algorithm != ALGORITHM:
        return malformed(Fault.AUTHORIZATION_TYPE, "Authorization", _shown(algorithm))
    components = rest.replace(" ", "").split(",")
    if len(components) != len(_COMPONENTS):
        return malformed(Fault.COMPONENTS)
    for expected, component in zip(_COMPONENTS, components, strict=True):
        name, equals, content = component.partition("=")
        if not equals or "=" in content:
            return malformed(Fault.COMPONENT_FORM, _shown(component))
        if name != expected:
            return malformed(Fault.COMPONENT_MISSING, expected)
        if name == "Credential":
            fault = _fault_of_credential(content, told, in_query=False)
            if fault is not None:
                return fault
    return Refused(Reason.AUTHORIZATION_MALFORMED, told)


def fault_of_query(found: Mapping[str, str]) -> Refused:
    """Return why the parameters of a presigned URL are no signature of S3's."""
    told = "the parameters of a presigned URL"

    def malformed(fault: Fault, *facts: str) -> Refused:
        return S3Refused(Reason.AUTHORIZATION_MALFORMED, fault, *facts, detail=told)

    algorithm = found["X-Amz-Algorithm"]
    if algorithm != ALGORITHM:
        return malformed(Fault.QUERY_HMAC if algorithm == _ECDSA else Fault.QUERY_ALGORITHM)
    fault = _fault_of_credential(found["X-Amz-Credential"], told, in_query=True)
    if fault is not None:
        return fault
    if not _AMZ_DATE.fullmatch(found["X-Amz-Date"]):
        return malformed(Fault.QUERY_DATE)
    expires = found["X-Amz-Expires"]
    told = f"{told}; it expires after {expires[:16]!r} seconds"
    if not _NUMBER.fullmatch(expires):
        return malformed(Fault.QUERY_EXPIRES_NUMBER)
    if expires.startswith("-"):
        return malformed(Fault.QUERY_EXPIRES_NEGATIVE)
    # What is longer than the limit is larger, and need not be read: it may have thousands of digits.
    digits = expires.lstrip("+0")
    if len(digits) > len(str(MAX_EXPIRES)) or int(digits or "0") > MAX_EXPIRES:
        return malformed(Fault.QUERY_EXPIRES_LATE)
    return Refused(Reason.AUTHORIZATION_MALFORMED, told)


def fault_of_service(service: str, *, in_query: bool) -> Refused:
    """Return the refusal of a signature for another service."""
    fault = Fault.QUERY_CREDENTIAL_SERVICE if in_query else Fault.CREDENTIAL_SERVICE
    return S3Refused(Reason.SCOPE_MISMATCH, fault, _shown(service), detail=f"signed for service {service[:64]!r}")


def _fault_of_credential(credential: str, told: str, *, in_query: bool) -> Refused | None:
    parts = credential.split("/")
    if len(parts) != _SCOPE_PARTS:
        form = Fault.QUERY_CREDENTIAL_FORM if in_query else Fault.CREDENTIAL_FORM
        return S3Refused(Reason.AUTHORIZATION_MALFORMED, form, detail=told)
    _, day, _, service, terminal = parts
    if service != "s3":
        return fault_of_service(service, in_query=in_query)
    if terminal != _TERMINAL:
        end = Fault.QUERY_CREDENTIAL_TERMINAL if in_query else Fault.CREDENTIAL_TERMINAL
        return S3Refused(Reason.AUTHORIZATION_MALFORMED, end, _shown(terminal), detail=told)
    if not _is_day(day):
        form = Fault.QUERY_CREDENTIAL_DATE if in_query else Fault.CREDENTIAL_DATE
        return S3Refused(Reason.AUTHORIZATION_MALFORMED, form, _shown(day), detail=told)
    return None


def _shown(word: str) -> str:
    return word if len(word) <= _SHOWN else "..."


def _is_day(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{8}", text):
        return False
    year, month, day = int(text[:4]), int(text[4:6]), int(text[6:])
    if not 1 <= month <= len(_DAYS):
        return False
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= day <= _DAYS[month - 1] + (month == _FEBRUARY and is_leap)

"""Parse the query of an S3 request by hand: once decoded, no repetition, nothing reserved."""

from __future__ import annotations

from signproxy.errors import Reason, Refused
from signproxy.s3.uri import decode_once

MAX_PARAMETERS = 32
"""More than any S3 operation has; bounds the work for a hostile query."""

_RESERVED_PREFIXES = ("x-amz-", "x-minio-", "x-goog-", "x-signproxy-")
# SigV2's presign parameters; SigV4's all begin with x-amz-.
_RESERVED = frozenset({"awsaccesskeyid", "signature", "expires"})


def parse_query(raw: str) -> dict[str, str]:
    """Return the decoded parameters; a name without a value has the empty one."""
    parameters: dict[str, str] = {}
    parts = raw.split("&")
    if len(parts) > MAX_PARAMETERS:
        raise Refused(Reason.QUERY_MALFORMED, f"{len(parts)} parameters, at most {MAX_PARAMETERS} are read")
    for part in parts:
        # Stacks differ on whether a semicolon separates parameters.
        if not part or ";" in part:
            raise Refused(Reason.QUERY_MALFORMED, f"part {part!r}")
        raw_name, _, raw_value = part.partition("=")
        try:
            name = decode_once(raw_name.replace("+", " "))
            value = decode_once(raw_value.replace("+", " "))
        except Refused as refusal:
            raise Refused(Reason.QUERY_MALFORMED, refusal.detail) from None
        if not name:
            raise Refused(Reason.QUERY_MALFORMED, f"part {part!r} has no name")
        lowered = name.lower()
        if lowered.startswith(_RESERVED_PREFIXES) or lowered in _RESERVED:
            raise Refused(Reason.QUERY_RESERVED, f"parameter {name!r}")
        if name in parameters:
            raise Refused(Reason.QUERY_REPEATED, f"parameter {name!r}")
        parameters[name] = value
    return parameters

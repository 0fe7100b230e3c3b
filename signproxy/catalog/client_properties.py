"""Say which properties of an upstream's a client is told: those that can neither lead it elsewhere nor hold a key.

Everything else is dropped, known or not. `uri`, `s3.endpoint`, `s3.proxy-uri`, `oauth2-server-uri` and `signer.*` would
send requests, and tokens with them, to another host; `io-impl`, `client.credentials-provider`, `s3.signer` and
`client.factory` would run another class; `header.*` and `token` would make the caller another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Raw

from signproxy.catalog.json_object import JsonInvalid, read_string

_SWITCH = re.compile(r"true|false", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,10}")
_KMS_KEY = re.compile(
    r"arn:aws(?:-[a-z]{1,16}){0,3}:kms:[a-z0-9\-]{1,32}:[0-9]{12}:(?:key|alias)/[A-Za-z0-9/_\-]{1,256}"
)

PASSED = {
    # How the catalog is asked.
    "rest-metrics-reporting-enabled": _SWITCH,
    "rest-page-size": _NUMBER,
    "rest-table-cache.expire-after-write-ms": _NUMBER,
    "rest-table-cache.max-entries": _NUMBER,
    "scan-planning-mode": re.compile(r"(?:client|server|catalog)(?:[\-_](?:only|preferred))?", re.IGNORECASE),
    "snapshot-loading-mode": re.compile(r"all|refs", re.IGNORECASE),
    "token-exchange-enabled": _SWITCH,
    "token-refresh-enabled": _SWITCH,
    "view-endpoints-supported": _SWITCH,
    # How objects are written; each of it is in the request that signproxy judges.
    "s3.checksum-enabled": _SWITCH,
    "s3.delete-enabled": _SWITCH,
    "s3.delete.batch-size": _NUMBER,
    "s3.multipart.part-size-bytes": _NUMBER,
    "s3.multipart.size": _NUMBER,
    "s3.multipart.num-threads": _NUMBER,
    # Not `custom`, whose key would be the secret itself.
    "s3.sse.key": _KMS_KEY,
    "s3.sse.type": re.compile(r"none|s3|kms|dsse-kms"),
}
"""Property -> what its values look like. None of them has room for a secret or an address."""


def passed(properties: Mapping[str, Raw]) -> dict[str, str]:
    """Return the properties that a client is told."""
    kept = {}
    for name in PASSED.keys() & properties.keys():
        try:
            value = read_string(properties[name])
        except JsonInvalid:
            continue
        if PASSED[name].fullmatch(value):
            kept[name] = value
    return dict(sorted(kept.items()))

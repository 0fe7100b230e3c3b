"""Spell the sign request that every signer of a run is asked: Iceberg Java's GetObject, each one for another file."""

from __future__ import annotations

import json
from typing import Any

COUNTER = "000000000000"
"""Stands in `body_template` wherever the request's number goes; of fixed width, so that all bodies are equally long."""

_FILE = f"00007-{COUNTER}-5d1f4c1e-8a0b-4a58-9f3c-2f0a9b1c7d11-0-00001.parquet"

# What S3FileIO of Iceberg 1.11 with SDK 2.x sends for a range of a data file: nothing else, nothing less.
_USER_AGENT = (
    "aws-sdk-java/2.42.33 md/io#sync md/http#Apache ua/2.1 api/S3#2.42.x os/Linux#6.1.0 lang/java#17.0.15 "
    "md/OpenJDK_64-Bit_Server_VM#17.0.15+6 md/vendor#Debian md/en_US app/iceberg-spark m/D,N,P"
)


def body_template(endpoint: str, bucket: str, location: str, region: str) -> str:
    """Return the JSON body that asks for a range of a Parquet file below `location`, with `COUNTER` for its number."""
    request: dict[str, Any] = {
        "region": region,
        "method": "GET",
        "uri": f"{endpoint}/{bucket}/{location}/data/{_FILE}",
        "headers": {
            "amz-sdk-invocation-id": [f"8f14e45f-ceea-467f-a0e6-{COUNTER}"],
            "amz-sdk-request": ["attempt=1; max=6"],
            "Range": ["bytes=4-65539"],
            "User-Agent": [_USER_AGENT],
            "x-amz-te": ["append-md5"],
        },
        "properties": {},
        "provider": "s3",
    }
    return json.dumps(request, separators=(",", ":"))


def body(template: str, number: int) -> bytes:
    """Return the body with a number, for the requests that are not wrk's."""
    return template.replace(COUNTER, f"{number:0{len(COUNTER)}d}").encode()

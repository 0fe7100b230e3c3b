"""Read and write by keys that an SDK fetches by itself; runs in the environment that has the library.

Takes a JSON document on standard input, writes one on standard output. Nothing here names a key: the environment has
the address of the endpoint and the file of the token, as a container has.
"""

# mypy: disable-error-code="import-not-found"
# ruff: noqa: T201  # A script, with the imports of the one library that it is asked for.

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

ROWS = 1_000


def botocore(asked: dict[str, Any]) -> Iterator[tuple[str, object]]:
    from botocore.config import Config
    from botocore.exceptions import ClientError
    from botocore.session import Session

    session = Session()
    client = session.create_client(
        "s3",
        endpoint_url=asked["origin"],
        region_name=asked["region"],
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )
    bucket, key = asked["bucket"], f"{asked['table']}/data/botocore"
    client.put_object(Bucket=bucket, Key=key, Body=b"written")
    keys = set()
    for number in range(asked["times"]):
        if number == asked["times"] // 2:
            # As a kubelet does it: the job goes on, and the SDK reads the file anew.
            Path(asked["token_file"]).write_text(asked["next_token"])
        assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == b"written"
        keys.add(session.get_credentials().get_frozen_credentials().access_key)
    yield "read and write", len(keys)
    for operation in ("get_object", "put_object"):
        try:
            getattr(client, operation)(Bucket=bucket, Key=f"{asked['closed']}/data/f")
            yield f"closed: {operation}", "works"
        except ClientError as error:
            yield f"closed: {operation}", error.response["Error"]["Code"]


def pyarrow(asked: dict[str, Any]) -> Iterator[tuple[str, object]]:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import fs

    s3 = fs.S3FileSystem(
        region=asked["region"],
        endpoint_override=asked["origin"].removeprefix("http://"),
        scheme="http",
        allow_bucket_creation=False,
    )
    path = f"{asked['bucket']}/{asked['table']}/data/pyarrow.parquet"
    pq.write_table(pa.table({"id": range(ROWS)}), path, filesystem=s3)
    yield "read and write", [pq.read_table(path, filesystem=s3).num_rows for _ in range(asked["times"])]
    yield "closed", _refused(lambda: s3.open_input_file(f"{asked['bucket']}/{asked['closed']}/data/f").read())


def obstore(asked: dict[str, Any]) -> Iterator[tuple[str, object]]:
    import obstore as obs
    from obstore.store import S3Store

    store = S3Store(
        asked["bucket"],
        endpoint=asked["origin"],
        region=asked["region"],
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    obs.put(store, f"{asked['table']}/data/obstore", b"written")
    read = [obs.get(store, f"{asked['table']}/data/obstore").bytes() == b"written" for _ in range(asked["times"])]
    yield "read and write", read
    yield "closed", _refused(lambda: obs.get(store, f"{asked['closed']}/data/f"))


def polars(asked: dict[str, Any]) -> Iterator[tuple[str, object]]:
    import polars as pl

    options = {
        "aws_endpoint_url": asked["origin"],
        "aws_region": asked["region"],
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
        "aws_container_credentials_full_uri": os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"],
        "aws_container_authorization_token_file": os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"],
    }
    above = f"s3://{asked['bucket']}/"
    path = f"{above}{asked['table']}/data/polars.parquet"
    pl.DataFrame({"id": range(ROWS)}).write_parquet(path, storage_options=options, credential_provider=None)

    def rows(of: str) -> int:
        return int(pl.scan_parquet(of, storage_options=options, credential_provider=None).collect().height)

    yield "read and write", [rows(path) for _ in range(asked["times"])]
    yield "closed", _refused(lambda: rows(f"{above}{asked['closed']}/data/f.parquet"))


def _refused(does: Callable[[], object]) -> str:
    with suppress(Exception):
        does()
        return "works"
    return "refused"


def main() -> None:
    """Do what is asked."""
    asked = json.load(sys.stdin)
    print(json.dumps(dict(globals()[asked["client"]](asked))))


main()

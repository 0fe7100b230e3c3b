"""Read and write through one S3 library; runs in the environment that has it.

Takes a JSON document on standard input, writes the steps that it did to standard output, one a line.
"""

# mypy: disable-error-code="import-not-found"
# ruff: noqa: T201, S608, PTH123, SIM115  # A script, with the imports of the one library that it is asked for.

from __future__ import annotations

import hashlib
import json
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

NAMES = ("plain.txt", "with blank.txt", "plus+and=é.txt", "deep/er/file.txt")
SMALL = b"a small file\n" * 100
ROWS = 200_000
_MIB = 1024 * 1024


def boto3(asked: dict[str, Any]) -> Iterator[str]:
    import boto3
    from boto3.s3.transfer import TransferConfig
    from botocore.config import Config

    client = boto3.client(
        "s3",
        endpoint_url=asked["origin"],
        region_name=asked["region"],
        aws_access_key_id=asked["access_key"],
        aws_secret_access_key=asked["secret"],
        aws_session_token=asked["session_token"] or None,
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, signature_version="s3v4"),
    )
    bucket = asked["bucket"]
    keys = [f"boto3/{name}" for name in NAMES]
    for key in keys:
        client.put_object(Bucket=bucket, Key=key, Body=SMALL, Metadata={"a": "b"})
    yield "PUT"
    listed = [found["Key"] for found in client.list_objects_v2(Bucket=bucket, Prefix="boto3/")["Contents"]]
    assert sorted(listed) == sorted(keys), listed
    yield "list"
    for key in keys:
        found = client.get_object(Bucket=bucket, Key=key)
        assert found["Body"].read() == SMALL
        assert found["Metadata"] == {"a": "b"}
    assert client.get_object(Bucket=bucket, Key=keys[0], Range="bytes=2-6")["Body"].read() == SMALL[2:7]
    yield "GET"
    config = TransferConfig(multipart_threshold=8 * _MIB, multipart_chunksize=8 * _MIB)
    for algorithm in ("CRC32", "CRC32C", "CRC64NVME"):
        extra = {"ChecksumAlgorithm": algorithm}
        client.upload_file(asked["large"], bucket, f"boto3/large-{algorithm}", ExtraArgs=extra, Config=config)
        # Of a large run, once is enough.
        if asked["size"] > 128 * _MIB:
            break
    yield "multipart upload"
    client.download_file(bucket, "boto3/large-CRC32", asked["back"], Config=config)
    assert _digest(asked["back"]) == _digest(asked["large"])
    yield "download in ranges"
    client.copy_object(Bucket=bucket, Key="boto3/copied", CopySource={"Bucket": bucket, "Key": keys[2]})
    yield "copy"
    where = {"Bucket": bucket, "Key": "boto3/presigned"}
    for method, body in (("put_object", SMALL), ("get_object", None)):
        url = client.generate_presigned_url(method, Params=where, ExpiresIn=60)
        request = urllib.request.Request(url, data=body, method="GET" if body is None else "PUT")
        request.add_header("Content-Type", "")
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.read() == (SMALL if body is None else b"")
    yield "presigned URL"
    every = [{"Key": found["Key"]} for found in client.list_objects_v2(Bucket=bucket, Prefix="boto3/")["Contents"]]
    deleted = client.delete_objects(Bucket=bucket, Delete={"Objects": every})
    assert len(deleted["Deleted"]) == len(every), deleted
    yield "delete"


def pyarrow(asked: dict[str, Any]) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import fs

    s3 = fs.S3FileSystem(
        access_key=asked["access_key"],
        secret_key=asked["secret"],
        session_token=asked["session_token"] or None,
        region=asked["region"],
        endpoint_override=asked["origin"].removeprefix("http://"),
        scheme="http",
        allow_bucket_creation=False,
    )
    below = f"{asked['bucket']}/pyarrow"
    for name in NAMES:
        with s3.open_output_stream(f"{below}/{name}") as out:
            out.write(SMALL)
    yield "PUT"
    listed = s3.get_file_info(fs.FileSelector(below, recursive=True))
    assert {found.path.removeprefix(f"{below}/") for found in listed if found.is_file} == {*NAMES}, listed
    yield "list"
    for name in NAMES:
        with s3.open_input_file(f"{below}/{name}") as file:
            assert file.read() == SMALL
    yield "GET"
    _piecewise(asked, s3.open_output_stream(f"{below}/large"))
    yield "multipart upload"
    with s3.open_input_stream(f"{below}/large") as stream:
        assert _digest_of(iter(lambda: stream.read(4 * _MIB), b"")) == _digest(asked["large"])
    yield "download in ranges"
    table = pa.table({"id": range(ROWS), "text": [f"row {row % 7}" for row in range(ROWS)]})
    pq.write_to_dataset(table, f"{below}/table", partition_cols=["text"], filesystem=s3)
    assert pq.read_table(f"{below}/table", filesystem=s3, filters=[("text", "=", "row 3")]).num_rows == ROWS // 7
    yield "Parquet"
    s3.copy_file(f"{below}/{NAMES[2]}", f"{below}/copied")
    yield "copy"
    s3.delete_dir(below)
    yield "delete"


def s3fs(asked: dict[str, Any]) -> Iterator[str]:
    from s3fs import S3FileSystem

    s3 = S3FileSystem(
        key=asked["access_key"],
        secret=asked["secret"],
        token=asked["session_token"] or None,
        client_kwargs={"endpoint_url": asked["origin"], "region_name": asked["region"]},
        config_kwargs={"s3": {"addressing_style": "path"}, "signature_version": "s3v4"},
        skip_instance_cache=True,
    )
    below = f"{asked['bucket']}/s3fs"
    for name in NAMES:
        s3.pipe_file(f"{below}/{name}", SMALL)
    yield "PUT"
    assert {path.removeprefix(f"{below}/") for path in s3.find(below)} == {*NAMES}, s3.find(below)
    yield "list"
    for name in NAMES:
        assert s3.cat_file(f"{below}/{name}") == SMALL
    yield "GET"
    _piecewise(asked, s3.open(f"{below}/large", "wb", block_size=8 * _MIB))
    yield "multipart upload"
    with s3.open(f"{below}/large", "rb", block_size=8 * _MIB) as file:
        assert _digest_of(iter(lambda: file.read(4 * _MIB), b"")) == _digest(asked["large"])
    yield "download in ranges"
    s3.copy(f"{below}/{NAMES[2]}", f"{below}/copied")
    yield "copy"
    url = s3.sign(f"{below}/{NAMES[2]}", expiration=60)
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.read() == SMALL
    yield "presigned URL"
    s3.rm(below, recursive=True)
    yield "delete"


def obstore(asked: dict[str, Any]) -> Iterator[str]:
    import obstore
    from obstore.store import S3Store

    token = {"session_token": asked["session_token"]} if asked["session_token"] else {}
    store = S3Store(
        asked["bucket"],
        prefix="obstore",
        endpoint=asked["origin"],
        region=asked["region"],
        access_key_id=asked["access_key"],
        secret_access_key=asked["secret"],
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
        **token,
    )
    for name in NAMES:
        obstore.put(store, name, SMALL)
    yield "PUT"
    listed = {found["path"] for page in obstore.list(store) for found in page}
    assert listed == {*NAMES}, listed
    yield "list"
    for name in NAMES:
        assert obstore.get(store, name).bytes().to_bytes() == SMALL
    yield "GET"
    with open(asked["large"], "rb") as file:
        obstore.put(store, "large", file, use_multipart=True, chunk_size=8 * _MIB)
    yield "multipart upload"
    assert _digest_of(bytes(piece) for piece in obstore.get(store, "large")) == _digest(asked["large"])
    assert obstore.get_range(store, "large", start=5, end=9).to_bytes() == open(asked["large"], "rb").read(9)[5:]
    yield "download in ranges"
    obstore.copy(store, NAMES[2], "copied")
    yield "copy"
    obstore.delete(store, [*NAMES, "large", "copied"])
    assert not [found for page in obstore.list(store) for found in page]
    yield "delete"


def polars(asked: dict[str, Any]) -> Iterator[str]:
    import polars as pl

    options = {
        "aws_access_key_id": asked["access_key"],
        "aws_secret_access_key": asked["secret"],
        "aws_region": asked["region"],
        "aws_endpoint_url": asked["origin"],
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }
    if asked["session_token"]:
        options["aws_session_token"] = asked["session_token"]
    below = f"s3://{asked['bucket']}/polars"
    frame = pl.DataFrame({"id": range(ROWS), "text": [f"row {row % 7}" for row in range(ROWS)]})
    frame.write_parquet(f"{below}/one.parquet", storage_options=options)
    frame.lazy().sink_parquet(f"{below}/two.parquet", storage_options=options)
    yield "PUT"
    found = pl.scan_parquet(f"{below}/*.parquet", storage_options=options)
    assert found.select(pl.len()).collect().item() == 2 * ROWS
    yield "list"
    assert found.filter(pl.col("text") == "row 3").collect().height == 2 * (ROWS // 7)
    yield "GET"
    wide = pl.DataFrame({f"c{column}": range(asked["size"] // 128) for column in range(16)})
    wide.write_parquet(f"{below}/wide.parquet", storage_options=options, compression="uncompressed")
    yield "multipart upload"
    read = pl.scan_parquet(f"{below}/wide.parquet", storage_options=options)
    assert read.select(pl.col("c3").sum()).collect().item() == sum(range(asked["size"] // 128))
    yield "download in ranges"


def duckdb(asked: dict[str, Any]) -> Iterator[str]:
    from pathlib import Path

    import duckdb
    import duckdb_extension_httpfs

    extension = next(Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension"))
    connection = duckdb.connect()
    # It would fetch what it lacks from a server of its own.
    connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
    connection.execute(f"LOAD '{extension}'")
    token = f", SESSION_TOKEN '{asked['session_token']}'" if asked["session_token"] else ""
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{asked['access_key']}', SECRET '{asked['secret']}'{token}, "
        f"REGION '{asked['region']}', ENDPOINT '{asked['origin'].removeprefix('http://')}', "
        "URL_STYLE 'path', USE_SSL false)"
    )
    below = f"s3://{asked['bucket']}/duckdb"
    rows = f"(SELECT range AS id, 'r' || (range % 7) AS text FROM range({ROWS}))"
    for name in ("one.parquet", "two.parquet", "with blank.parquet", "é.parquet"):
        connection.execute(f"COPY {rows} TO '{below}/{name}'")
    connection.execute(f"COPY {rows} TO '{below}/parts' (FORMAT parquet, PARTITION_BY (text))")
    yield "PUT"
    count = connection.execute(f"SELECT count(*) FROM '{below}/*.parquet'").fetchone()
    assert count == (4 * ROWS,), count
    yield "list"
    some = f"SELECT count(*) FROM read_parquet('{below}/parts/*/*.parquet', hive_partitioning = true) WHERE text = 'r3'"
    assert connection.execute(some).fetchone() == (ROWS // 7,)
    yield "GET"
    wide = f"(SELECT range AS a, range * 7 AS b, hash(range) AS c, random() AS d FROM range({asked['size'] // 32}))"
    connection.execute(f"COPY {wide} TO '{below}/wide.parquet' (COMPRESSION uncompressed)")
    yield "multipart upload"
    total = connection.execute(f"SELECT count(*), max(b) FROM '{below}/wide.parquet'").fetchone()
    assert total == (asked["size"] // 32, 7 * (asked["size"] // 32 - 1)), total
    yield "download in ranges"


def _piecewise(asked: dict[str, Any], out: Any) -> None:
    with open(asked["large"], "rb") as file, out:
        for piece in iter(lambda: file.read(3 * _MIB), b""):
            out.write(piece)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return _digest_of(iter(lambda: file.read(_MIB), b""))


def _digest_of(pieces: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


if __name__ == "__main__":
    given = json.load(sys.stdin)
    drive = {each.__name__: each for each in (boto3, pyarrow, s3fs, obstore, polars, duckdb)}[given["client"]]
    for step in drive(given):
        print(step, flush=True)

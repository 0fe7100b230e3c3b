"""Run each functional test of MinIO's Python library; one JSON document in, one JSON line for each test out.

The suite's own runner ends with its first failure. Takes the suite's file as its argument.
"""

# mypy: disable-error-code="import-not-found"
# ruff: noqa: T201  # A script, run in the environment that has the library.

from __future__ import annotations

import importlib.util
import json
import random
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from minio import Minio
from minio.error import S3Error

_LOOKED_AT_MOST = 20
"""Of one test: one of them writes 1,001 objects that are all alike, and a look is a request to the slowest store."""
_REMOVED = ": removed"
_MIB = 1024 * 1024
_NAMES = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class _Witness:
    """Look at each object before the suite removes it, with the store's own keys."""

    def __init__(self, asked: dict[str, Any], client: Any) -> None:
        self.seen: list[list[object]] = []
        self._owner = _client(asked["owner"])
        self._remove_object, self._remove_objects = client.remove_object, client.remove_objects
        client.remove_object, client.remove_objects = self.remove_object, self.remove_objects

    def remove_object(self, bucket_name: str, object_name: str, version_id: str | None = None) -> None:
        self._look(bucket_name, object_name, version_id)
        self._remove_object(bucket_name, object_name, version_id=version_id)

    def remove_objects(self, bucket_name: str, delete_object_list: Iterable[Any], **more: Any) -> Any:
        listed = list(delete_object_list)
        for each in listed:
            self._look(bucket_name, each.name, each.version_id)
        return self._remove_objects(bucket_name, listed, **more)

    def _look(self, bucket: str, key: str, version_id: str | None) -> None:
        if len(self.seen) >= _LOOKED_AT_MOST:
            return
        try:
            found = self._owner.stat_object(bucket, key, version_id=version_id)
        except S3Error as refused:
            self.seen.append([_plain(key), refused.code])
        else:
            said = {name.lower(): value for name, value in found.metadata.items()}
            # A store answers headers in no order.
            kept = {
                name: value
                for name, value in sorted(said.items())
                if name.startswith("x-amz-meta-") or name in ("content-type", "cache-control")
            }
            self.seen.append([_plain(key), found.size, found.etag, kept])


def _client(asked: dict[str, Any]) -> Any:
    return Minio(
        urlsplit(asked["origin"]).netloc,
        asked["access_key"],
        asked["secret"],
        session_token=asked["session_token"] or None,
        region=asked["region"],
        secure=False,
    )


def _suite(file: str, asked: dict[str, Any]) -> Any:
    spec = importlib.util.spec_from_file_location("suite", file)
    assert spec is not None
    assert spec.loader is not None
    suite: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(suite)
    suite._client = _client(asked)
    suite._is_aws = False
    for name, size in (("_test_file", _MIB), ("_large_file", 11 * _MIB)):
        Path(name).write_bytes(random.Random(size).randbytes(size))
        setattr(suite, name, name)
    return suite


def _plain(text: str) -> str:
    """Take out the names that the suite draws for its buckets and objects."""
    return _NAMES.sub("NAME", text)


def _main() -> None:
    asked = json.load(sys.stdin)
    suite = _suite(sys.argv[1], asked)
    witness = _Witness(asked, suite._client)
    for name in sorted(name for name in vars(suite) if name.startswith("test_")):
        told: dict[str, object] = {"step": name}
        witness.seen = []
        # What the suite uploads is drawn, and has to be the same both ways.
        random.seed(name)
        try:
            getattr(suite, name)({})
        except S3Error as refused:
            told |= {"error": refused.code, "status": refused.response.status, "text": _plain(str(refused))}
        except Exception as failed:  # noqa: BLE001 - what the suite makes of an answer is what is compared
            told |= {"error": type(failed).__name__, "text": _plain(str(failed))[:300]}
        print(json.dumps(told), flush=True)
        seen = sorted(witness.seen, key=json.dumps)
        print(json.dumps({"step": f"{name}{_REMOVED}", "value": seen}), flush=True)


_main()

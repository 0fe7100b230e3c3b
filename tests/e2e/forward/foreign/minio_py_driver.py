"""Run each functional test of MinIO's Python library; one JSON document in, one JSON line for each test out.

The suite's own runner ends with its first failure. Takes the suite's file as its argument.
"""

# mypy: disable-error-code="import-not-found"
# ruff: noqa: T201  # A script, run in the environment that has the library.

from __future__ import annotations

import importlib.util
import json
import random
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from minio import Minio
from minio.error import S3Error

_MIB = 1024 * 1024


def _suite(file: str, asked: dict[str, Any]) -> Any:
    spec = importlib.util.spec_from_file_location("suite", file)
    assert spec is not None
    assert spec.loader is not None
    suite: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(suite)
    suite._client = Minio(
        urlsplit(asked["origin"]).netloc,
        asked["access_key"],
        asked["secret"],
        session_token=asked["session_token"] or None,
        region=asked["region"],
        secure=False,
    )
    suite._is_aws = False
    for name, size in (("_test_file", _MIB), ("_large_file", 11 * _MIB)):
        Path(name).write_bytes(random.Random(size).randbytes(size))
        setattr(suite, name, name)
    return suite


def _main() -> None:
    suite = _suite(sys.argv[1], json.load(sys.stdin))
    for name in sorted(name for name in vars(suite) if name.startswith("test_")):
        told: dict[str, object] = {"step": name}
        try:
            getattr(suite, name)({})
        except S3Error as refused:
            told |= {"error": refused.code, "text": f"{refused.message} {refused.resource}"}
        except Exception as failed:  # noqa: BLE001 - what the suite makes of an answer is what is compared
            told |= {"error": type(failed).__name__, "text": str(failed)[:300]}
        print(json.dumps(told), flush=True)


_main()

"""Use obstore; one JSON document on standard input, one JSON line for each step on standard output."""

# mypy: disable-error-code="import-not-found"
# ruff: noqa: T201  # A script, run in the environment that has the library.

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import obstore
from obstore.store import S3Store

LARGE = b"large-" * 2_000_000


def _step(name: str, action: Callable[[], object]) -> None:
    told: dict[str, object] = {"step": name}
    try:
        told["value"] = action()
    except urllib.error.HTTPError as refused:
        told |= {"error": _code_in(refused.read().decode()), "status": refused.code}
    except Exception as failed:  # noqa: BLE001 - what the client makes of an answer is what is compared
        # Most refusals are one class of its own; the answer stands in its text, with clocks and addresses around it.
        told["error"] = f"{type(failed).__name__} {_code_in(str(failed))}".strip()
    print(json.dumps(told), flush=True)


def _code_in(text: str) -> str:
    found = re.search("<Code>([^<]*)", text)
    return found[1] if found else ""


def _steps(store: S3Store, names: list[str]) -> None:
    for name in names:
        _step(f"put {name}", partial(_put, store, name))
        _step(f"head {name}", partial(_head, store, name))
        _step(f"get {name}", partial(_get, store, name))
    _step("put nothing", lambda: obstore.put(store, "empty", b"")["e_tag"])
    _step("put with attributes", lambda: _with_attributes(store))
    _step("put in parts", lambda: obstore.put(store, "large", LARGE, use_multipart=True, chunk_size=5 << 20)["e_tag"])
    _step("get in parts", lambda: bytes(obstore.get(store, "large").bytes()) == LARGE)
    _step("get range", lambda: bytes(obstore.get_range(store, "large", start=3, end=10)).decode())
    _step("get ranges", lambda: [bytes(each).decode() for each in _ranges(store)])
    _step("get suffix", lambda: bytes(obstore.get(store, "large", options={"range": {"suffix": 4}}).bytes()).decode())
    _step("get missing", lambda: obstore.get(store, "missing").bytes())
    _step("head missing", lambda: _meta(obstore.head(store, "missing")))
    _step("create over", lambda: obstore.put(store, "large", b"x", mode="create"))
    _step("copy", lambda: obstore.copy(store, "large", "copied"))
    _step("rename", lambda: obstore.rename(store, "copied", "renamed"))
    _step("list", lambda: [_meta(each) for each in obstore.list(store).collect()])
    _step("list below", lambda: [_meta(each) for each in obstore.list(store, prefix="deep").collect()])
    _step("list after", lambda: [each["path"] for each in obstore.list(store, offset="l").collect()])
    _step("list folders", lambda: sorted(obstore.list_with_delimiter(store)["common_prefixes"]))
    _step("presigned", lambda: _presigned(store))


def _clean_up(store: S3Store) -> None:
    _step("delete missing", lambda: obstore.delete(store, "missing"))
    _step("delete one", lambda: obstore.delete(store, "renamed"))
    _step("delete many", lambda: obstore.delete(store, [each["path"] for each in obstore.list(store).collect()]))
    _step("nothing is left", lambda: len(obstore.list(store).collect()))


def _put(store: S3Store, name: str) -> object:
    return obstore.put(store, name, name.encode())["e_tag"]


def _head(store: S3Store, name: str) -> object:
    return _meta(obstore.head(store, name))


def _get(store: S3Store, name: str) -> str:
    return bytes(obstore.get(store, name).bytes()).decode()


def _meta(found: Any) -> list[object]:
    return [found["path"], found["size"], found["e_tag"]]


def _with_attributes(store: S3Store) -> object:
    obstore.put(store, "attributes", b"a", attributes={"Content-Type": "text/x", "Cache-Control": "no-store", "k": "v"})
    return dict(obstore.get(store, "attributes").attributes)


def _ranges(store: S3Store) -> Any:
    return obstore.get_ranges(store, "large", starts=[0, 3_000_000], ends=[6, 3_000_006])


def _presigned(store: S3Store) -> list[object]:
    url = obstore.sign(store, "PUT", "signed", timedelta(seconds=60))
    with urllib.request.urlopen(urllib.request.Request(url, data=b"by URL", method="PUT"), timeout=30) as answer:
        status = answer.status
    url = obstore.sign(store, "GET", "signed", timedelta(seconds=60))
    with urllib.request.urlopen(url, timeout=30) as answer:
        return [status, answer.status, answer.read().decode()]


def _main() -> None:
    asked = json.load(sys.stdin)
    store = S3Store(
        asked["bucket"],
        endpoint=asked["origin"],
        region=asked["region"],
        access_key_id=asked["access_key"],
        secret_access_key=asked["secret"],
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
        virtual_hosted_style_request=False,
        **({"session_token": asked["session_token"]} if asked["session_token"] else {}),
    )
    if asked["phase"] == "clean-up":
        _clean_up(store)
    else:
        _steps(store, asked["names"])


_main()

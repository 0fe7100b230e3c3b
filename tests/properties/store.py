"""Read a request as stores do: what it touches under S3's own rules, and under those of more lenient stores.

Written from S3's documentation and the behaviour of real stores alone: nothing here is shared with the code under
test, so that one mistake cannot sit on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree as ET


class Use(Enum):
    """What happens to what is touched."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Touch:
    """One key, or one prefix of a list, in every way in which some store could read it."""

    use: Use
    store: str
    bucket: str
    readings: frozenset[str]
    plain: frozenset[str]
    """The readings of S3 itself, and of stores and proxies that fold slashes or resolve dot segments."""


class UnknownRequest(AssertionError):
    """No store would run this as one of the operations that a signer of tables may sign."""


_AMAZON = (
    "s3.us-west-2.amazonaws.com", "s3-us-west-2.amazonaws.com", "s3.dualstack.us-west-2.amazonaws.com",
    "s3-fips.us-west-2.amazonaws.com", "s3-fips.dualstack.us-west-2.amazonaws.com", "s3.amazonaws.com",
    "s3-accelerate.amazonaws.com", "s3-accelerate.dualstack.amazonaws.com",
)  # fmt: skip
# A MinIO that runs without a domain takes every host for a path-style one.
_PATH_ONLY = {"http://minio.local:9000": "minio"}
_DOMAINS = {**{f"https://{host}": "aws" for host in _AMAZON}, "https://s3.minio.corp": "minio"}


def touched(
    method: str, uri: str, headers: Mapping[str, Sequence[str]], body: str | None
) -> tuple[tuple[Touch, ...], frozenset[str]]:
    """Return what a request touches, and the names in its query. Raise UnknownRequest."""
    store, bucket, raw_key, raw_query = _addressed(uri)
    names = dict(_pairs(raw_query))
    if raw_key:
        return _object(method, store, bucket, raw_key, names, headers), frozenset(names)
    if method == "POST" and names.keys() - {"x-id", "x-signproxy-id"} == {"delete"}:
        keys = _deleted(body or "")
        return tuple(_touch(Use.DELETE, store, bucket, key) for key in keys), frozenset(names)
    if method == "GET" and (names.get("list-type") == "2" or "versions" in names or "uploads" in names):
        return (_touch(Use.LIST, store, bucket, names.get("prefix", "")),), frozenset(names)
    raise UnknownRequest(f"{method} {uri}")


def _addressed(uri: str) -> tuple[str, str, str, str]:
    """Return store, bucket, raw key and raw query. The first ? ends the path, the first / the authority."""
    rest, _, raw_query = uri.partition("?")
    scheme, _, rest = rest.partition("://")
    authority, _, raw_path = rest.partition("/")
    authority = authority.removesuffix({"http": ":80", "https": ":443"}.get(scheme, ""))
    origin = f"{scheme}://{authority}"
    if origin in _PATH_ONLY or origin in _DOMAINS:
        bucket, _, raw_key = raw_path.partition("/")
        return _PATH_ONLY.get(origin) or _DOMAINS[origin], bucket, raw_key, raw_query
    for domain, store in _DOMAINS.items():
        suffix = domain.removeprefix(f"{scheme}://")
        if domain.startswith(f"{scheme}://") and authority.endswith(f".{suffix}"):
            # Whatever stands before the store's own domain is the bucket, dots included.
            return store, authority.removesuffix(f".{suffix}"), raw_path, raw_query
    raise UnknownRequest(f"host {authority}")


def _pairs(raw: str) -> list[tuple[str, str]]:
    pairs = []
    for part in raw.split("&") if raw else ():
        name, _, value = part.replace("+", " ").partition("=")
        pairs.append((_decoded(name), _decoded(value)))
    if len(dict(pairs)) != len(pairs):
        raise UnknownRequest(f"which one counts differs between stores: {raw}")
    return pairs


# What S3 makes of a request on an object, by its query; the markers that SDKs and the stamp add aside.
_OBJECT: dict[tuple[str, frozenset[str]], Use] = {
    ("GET", frozenset()): Use.READ,
    ("HEAD", frozenset()): Use.READ,
    ("GET", frozenset({"uploadId"})): Use.READ,
    ("GET", frozenset({"tagging"})): Use.READ,
    ("PUT", frozenset()): Use.WRITE,
    ("PUT", frozenset({"partNumber", "uploadId"})): Use.WRITE,
    ("PUT", frozenset({"tagging"})): Use.WRITE,
    ("POST", frozenset({"uploads"})): Use.WRITE,
    ("POST", frozenset({"uploadId"})): Use.WRITE,
    ("DELETE", frozenset()): Use.DELETE,
    ("DELETE", frozenset({"uploadId"})): Use.DELETE,
}
_NO_MARKERS = frozenset({"x-id", "x-signproxy-id", "max-parts", "part-number-marker"})


def _object(
    method: str,
    store: str,
    bucket: str,
    raw_key: str,
    names: Mapping[str, str],
    headers: Mapping[str, Sequence[str]],
) -> tuple[Touch, ...]:
    use = _OBJECT.get((method, frozenset(names.keys() - _NO_MARKERS)))
    if use is None:
        raise UnknownRequest(f"{method} on an object with {sorted(names)}")
    if method == "GET" and "uploadId" in names:
        # Who may see the parts of an upload may write.
        use = Use.WRITE
    touches = [_touch(use, store, bucket, _decoded(raw_key), raw_key)]
    for name, values in headers.items():
        if name.lower() == "x-amz-copy-source":
            touches += [_source(store, value) for value in values]
    return tuple(touches)


def _source(store: str, value: str) -> Touch:
    text = value.removeprefix("/").partition("?")[0]
    bucket, _, raw_key = text.partition("/")
    # Some stores decode the whole value before they look for the slash.
    other_bucket, _, other_key = _decoded(value).removeprefix("/").partition("?")[0].partition("/")
    if other_bucket != bucket:
        raise UnknownRequest(f"copy source {value!r} has two buckets")
    return _touch(Use.READ, store, bucket, other_key, raw_key)


def _deleted(body: str) -> list[str]:
    keys: list[str] = []
    for element in ET.fromstring(body).iter():  # noqa: S314 - only bodies that were signed are read
        if element.tag.rpartition("}")[2].lower() == "key":
            text = "".join(element.itertext())
            # Some parsers trim.
            keys += {text, text.strip()}
        elif element.tag.rpartition("}")[2].lower() == "versionid":
            raise UnknownRequest("a version is deleted")
    return keys


def _touch(use: Use, store: str, bucket: str, key: str, raw: str = "") -> Touch:
    """Read a decoded key, and its raw path where it has one, in every way."""
    # Proxies resolve what they see before a store decodes the rest; escaped dots and slashes count as plain ones.
    seen = {raw, re.sub("%2[eE]", ".", raw), re.sub("%2[fF]", "/", raw), re.sub("%5[cC]", "/", raw)} if raw else set()
    texts = {key, *([_decoded(raw)] if raw else []), *(_decoded(_resolved(early)) for early in seen)}
    return Touch(
        use,
        store,
        bucket,
        frozenset(lenient(text) for lenient in _LENIENCE for text in texts),
        frozenset(lenient(text) for lenient in _LENIENCE[:_PLAIN] for text in texts),
    )


_PLAIN = 3


def _resolved(path: str) -> str:
    """Resolve dot segments and fold slashes, as file systems do; the last segment keeps its slash."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            if not kept:
                return "(above the bucket)"
            kept.pop()
        elif segment not in ("", "."):
            kept.append(segment)
    return "/".join(kept) + ("/" if kept and segments[-1] in ("", ".", "..") else "")


def _decoded(raw: str) -> str:
    return unquote_to_bytes(raw).decode("utf-8", "surrogateescape")


_PLAIN = 3
_LENIENCE: tuple[Callable[[str], str], ...] = (
    lambda key: key,
    # SeaweedFS and nginx fold.
    lambda key: re.sub("/+", "/", key),
    _resolved,
    # Windows file systems, WHATWG parsers, MinIO's own checks.
    lambda key: _resolved(key.replace("\\", "/")),
    # Servlet containers drop path parameters.
    lambda key: _resolved(re.sub(";[^/]*", "", key)),
    lambda key: _resolved("/".join(segment.strip() for segment in key.split("/"))),
    lambda key: _resolved("/".join(segment.rstrip(". ") or segment for segment in key.split("/"))),
    # C stops at NUL, loggers and header parsers at a line end.
    lambda key: _resolved(re.split("[\x00\r\n]", key)[0]),
    lambda key: _resolved(re.sub("[\x00-\x1f\x7f]", "", key)),
    lambda key: _resolved(re.sub("[\u200b-\u200f\u2028\u2029\ufeff]", "", key)),
)

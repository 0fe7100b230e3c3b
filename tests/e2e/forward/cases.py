"""The differential suite: what clients do, told as steps that any S3 endpoint can be taken through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.e2e.forward.bodies import BODY, LARGE
from tests.e2e.forward.bucket_cases import attributes, bulk_deletes, lists, settings, tags
from tests.e2e.forward.object_cases import (
    checksums,
    codings,
    conditional_reads,
    conditional_writes,
    copies,
    expects,
    metadata,
    named,
    overrides,
    presigned,
    put_and_read,
    ranges,
    spelled,
)
from tests.e2e.forward.session import Session
from tests.e2e.forward.signer import SHAPES
from tests.e2e.forward.upload_cases import multipart, multipart_errors, part_copies

# Names that writers really produce, those on which encoders disagree, and those that look like paths and are none.
KEYS = (
    "plain.parquet",
    "a/b/c/d/e/f/g.parquet",
    "region=eu/day=2026-01-01/a.parquet",
    "New York/a b",
    "plus+sign",
    "percent%",
    "city=a%2Fb",
    "percent%25twice",
    "%zz",
    "São Paulo/\U0001f9ca",
    "e\u0301 and \u00e9",
    "~!*'()@:,;$&=",
    'quote"back\\slash',
    "<tag>&amp;",
    "ques?tion#hash",
    "a.b..c",
    "...",
    ".hidden",
    "..hidden/x",
    "a/..b/c",
    "trailing.",
    "[brackets]{braces}|^`",
    "k" * 250,
)

# What stands on the wire, for a key that SDKs would write in another way: a strict store takes each of them.
SPELLINGS = (
    "%61bc",
    "lower%c3%a9",
    "UPPER%C3%A9",
    "un=escaped:colon",
    "quote'paren()",
    "star*bang!",
    "plus+raw",
    "semi;comma,",
    "dollar$at@",
    "tilde%7E",
)


class Case(NamedTuple):
    """A scenario; `steps` takes a session through it."""

    name: str
    steps: Callable[[Session], None]

    def __str__(self) -> str:
        return self.name


def _all() -> Iterator[Case]:
    for shape in SHAPES:
        for label, body in (("empty", b""), ("small", BODY), ("large", LARGE)):
            yield Case(f"put and read, {shape}, {label}", put_and_read(shape, body))
    for key in KEYS:
        yield Case(f"key {key[:30]!a}", named(key))
    for spelling in SPELLINGS:
        yield Case(f"spelling {spelling}", spelled(spelling))
    yield Case("ranges", ranges)
    yield Case("conditional reads", conditional_reads)
    yield Case("conditional writes", conditional_writes)
    yield Case("metadata", metadata)
    yield Case("content codings", codings)
    yield Case("overridden response headers", overrides)
    yield Case("expect 100-continue", expects)
    yield Case("checksums", checksums)
    yield Case("copies", copies)
    yield Case("presigned", presigned)
    for shape in SHAPES:
        yield Case(f"multipart, {shape}", multipart(shape))
    yield Case("multipart errors", multipart_errors)
    yield Case("part copies", part_copies)
    yield Case("lists", lists)
    yield Case("bulk deletes", bulk_deletes)
    yield Case("tags", tags)
    yield Case("attributes", attributes)
    yield Case("bucket settings", settings)


CASES = tuple(_all())

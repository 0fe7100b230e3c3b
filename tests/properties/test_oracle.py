"""The judge of the properties: it reads requests as stores do, and finds every hole that is cut into the product."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from signproxy.policy import decide as judge
from signproxy.s3 import bulk_delete, classify, copy_source
from signproxy.s3.request import S3Request
from signproxy.s3.uri import decode_once
from tests.product import HOST
from tests.properties.drafts import COPIES, LISTS, Draft, drafts
from tests.properties.store import Touch, UnknownRequest, Use, touched
from tests.properties.world import BY_NAME, MAY, TABLES, Signed, attempt, check_signed, state_of
from tests.verifier import VerificationError

T1, T10, SMALL = BY_NAME["lake", "t1"], BY_NAME["lake", "t10"], BY_NAME["lake", "small"]


def _touch(
    uri: str, method: str = "GET", headers: dict[str, list[str]] | None = None, body: str | None = None
) -> Touch:
    touches, _ = touched(method, uri, headers or {}, body)
    return touches[-1]


_INSIDE = (
    f"{HOST}/wh/t1/f",
    f"{HOST}/wh%2Ft1%2Ff",
    f"{HOST}/wh/t1/%C3%A9+%2520",
    "https://s3.us-west-2.amazonaws.com:443/my-bucket/wh/t1/f?x-id=GetObject",
    f"{HOST}?list-type=2&prefix=wh/t1/",
    f"{HOST}?list-type=2&prefix=wh%2Ft1%2Fa",
)
_OUTSIDE = (
    f"{HOST}/wh/t1",
    f"{HOST}/wh/t1/",
    f"{HOST}/wh/t10/f",
    f"{HOST}/wh/T1/f",
    f"{HOST}/wh/t1/../t10/f",
    f"{HOST}/wh/t1/%2e%2e/t10/f",
    f"{HOST}/wh/t1/x%2f..%2f..%2Ft10/f",
    f"{HOST}/wh/t1/..;a/t10/f",
    f"{HOST}/wh/t1/..%20/t10/f",
    f"{HOST}/wh/t1/..%5Ct10/f",
    f"{HOST}/wh//t1/f",
    f"{HOST}/wh/t1//../../t10/f",
    f"{HOST}/wh/t1/%2e%2e%00/f",
    f"{HOST}/../my-bucket/wh/t1/f",
    "https://b.with.dot.s3.us-west-2.amazonaws.com/wh/t1/f",
    "http://minio.local:9000/my-bucket/wh/t1/f",
    f"{HOST}?list-type=2&prefix=wh/t1",
    f"{HOST}?list-type=2&prefix=wh/t1/../",
    f"{HOST}?list-type=2",
)


@pytest.mark.parametrize("uri", _INSIDE)
def test_what_lies_in_the_table_is_found_there(uri: str) -> None:
    """A judge that finds nothing inside finds every request guilty."""
    assert T1.holds(_touch(uri))
    assert T1.meets(_touch(uri))


@pytest.mark.parametrize("uri", _OUTSIDE)
def test_what_some_store_would_find_elsewhere_is_outside(uri: str) -> None:
    """A judge that shares one reading with the product proves nothing about stores that read otherwise."""
    assert not T1.holds(_touch(uri))


def test_every_way_to_another_table_is_seen() -> None:
    """The neighbour is met even if the product would not know it."""
    for uri in (f"{HOST}/wh/t1/../t10/f", f"{HOST}?list-type=2&prefix=wh/t1", f"{HOST}/wh/t10/f"):
        assert T10.meets(_touch(uri))
    assert SMALL.meets(_touch("https://small.s3.minio.corp/wh/small/f"))


def test_the_source_of_a_copy_and_the_keys_of_a_bulk_delete_are_touched() -> None:
    """They stand in a header and in the body, and are touched all the same."""
    source = _touch(f"{HOST}/wh/t1/f", "PUT", {"X-Amz-Copy-Source": ["my-bucket/wh/t10/a%20b"]})
    assert (source.use, source.bucket, "wh/t10/a b" in source.readings) == (Use.READ, "my-bucket", True)
    body = "<Delete xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Object><Key> wh/t1/f</Key></Object></Delete>"
    touches, _ = touched("POST", f"{HOST}/?delete", {}, body)
    # Once as written and once as trimmed.
    assert {reading for touch in touches for reading in touch.readings} >= {" wh/t1/f", "wh/t1/f"}


_UNKNOWN: tuple[tuple[str, str], ...] = (
    ("GET", f"{HOST}/wh/t1/f?acl"),
    ("PUT", f"{HOST}/wh/t1/f?versionId=1"),
    ("POST", f"{HOST}/wh/t1/f"),
    ("GET", f"{HOST}/wh/t1/f?a=1&a=2"),
    ("GET", f"{HOST}/"),
    ("DELETE", f"{HOST}/"),
    ("POST", f"{HOST}?delete&acl"),
    ("GET", "https://evil.example/wh/t1/f"),
    ("GET", "https://my-bucket.s3.us-east-1.amazonaws.com/wh/t1/f"),
    ("GET", "http://small.minio.local:9000/wh/small/f"),
)


@pytest.mark.parametrize(("method", "uri"), _UNKNOWN)
def test_what_no_table_needs_is_guilty_whatever_it_touches(method: str, uri: str) -> None:
    """A sub-resource of a key that is inside the table is not an object of the table."""
    with pytest.raises(UnknownRequest):
        touched(method, uri, {}, "<Delete/>")


def test_the_hand_written_rights_name_every_table_of_the_policy() -> None:
    """A table that is missing here would not be judged."""
    state = state_of(frozenset())
    assert {(c.name, t.name) for c in state.catalogs.values() for t in c.tables()} == BY_NAME.keys()
    assert {table for rights in MAY.values() for table in rights} == BY_NAME.keys()
    assert len(TABLES) == len(BY_NAME)


# How each rule is taken out of the product: the judge has to notice by what is signed then.
def _keys_unchecked(patch: pytest.MonkeyPatch) -> None:
    for room in (classify, copy_source, bulk_delete):
        patch.setattr(room, "check_key", lambda _: None)


def _prefixes_unchecked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(classify, "check_prefix", lambda _: None)
    patch.setattr(judge, "contains_prefix", lambda table, _, __, prefix: prefix.startswith(table.location[:-1]))


def _segments_unchecked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judge, "contains_key", lambda table, _, __, text: text.startswith(table.location[:-1]))


def _buckets_unchecked(patch: pytest.MonkeyPatch) -> None:
    for contains in ("contains_key", "contains_prefix"):
        patch.setattr(judge, contains, lambda *_: True)


def _sources_unchecked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judge, "sources", lambda _, __, target, *___: (target,))


def _metadata_unchecked(patch: pytest.MonkeyPatch) -> None:
    for refuse in ("refuse_key", "refuse_prefix"):
        patch.setattr(judge, refuse, lambda *_: None)


def _privileges_unchecked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judge, "unprivileged", lambda *_: None)


def _overwrites_unguarded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judge, "_write_once", lambda *_: False)


def _decoded_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(classify, "decode_once", lambda raw: decode_once(decode_once(raw)))


def _copies_taken_for_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(classify, "parse_copy_source", lambda *_, **__: None)


def _every_owner_but_the_first_forgotten(patch: pytest.MonkeyPatch) -> None:
    real: Callable[..., object] = judge.decide

    def decide(
        state: object, catalog: object, subject: object, owners: tuple[object, ...], asked: S3Request, *more: object
    ) -> object:
        return real(state, catalog, subject, owners[:1], asked, *more)

    patch.setattr("signproxy.gate.gate.decide", decide)


_ANY = drafts()
_BENT = drafts(bend=1)
_STRAY = drafts(stray=1)

# The hole, and where to look for it first.
_HOLES: tuple[tuple[Callable[[pytest.MonkeyPatch], None], st.SearchStrategy[Draft]], ...] = (
    (_keys_unchecked, _BENT),
    (_prefixes_unchecked, drafts(stray=1, shapes=LISTS)),
    (_segments_unchecked, _STRAY),
    (_buckets_unchecked, _STRAY),
    (_sources_unchecked, drafts(stray=2, shapes=COPIES)),
    (_metadata_unchecked, _ANY),
    (_privileges_unchecked, _ANY),
    (_overwrites_unguarded, _ANY),
    (_decoded_twice, _BENT),
    (_copies_taken_for_writes, drafts(stray=2, shapes=COPIES)),
    (_every_owner_but_the_first_forgotten, _ANY),
)


@pytest.mark.parametrize(("hole", "where"), _HOLES, ids=lambda value: getattr(value, "__name__", "").strip("_"))
def test_a_rule_that_is_taken_out_is_missed(
    hole: Callable[[pytest.MonkeyPatch], None], where: st.SearchStrategy[Draft]
) -> None:
    """Properties that hold with a rule and without it say nothing about the rule."""

    @settings(
        max_examples=2000,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(where)
    def search(draft: Draft) -> None:
        outcome = attempt(draft.who, draft.path, draft.raw)
        if isinstance(outcome, Signed):
            check_signed(outcome)

    with pytest.MonkeyPatch.context() as patch:
        hole(patch)
        with pytest.raises((AssertionError, UnknownRequest, VerificationError)):
            search()

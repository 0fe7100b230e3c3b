"""What holds for a key is only taken to hold for another one where the gate would say the same of that one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from signproxy.gate.forwarded import Passed
from signproxy.gate.request import AskedFor
from signproxy.model import Subject
from signproxy.policy.neighbours import Neighbours, neighbours
from tests.coroutines import finished
from tests.gate.cases import judged
from tests.gate.forward_cases import Site, caller, wire

PLACES = (
    ("my-bucket", "wh/t1/data/"),
    ("my-bucket", "wh/t1/"),
    ("my-bucket", "wh/t1/metadata/"),
    ("my-bucket", "wh/deep/data/"),
    ("my-bucket", "wh/once/data/"),
    ("my-bucket", "wh/sealed/data/"),
    ("my-bucket", "wh/sealed/"),
    ("my-bucket", "wh/sealed/metadata/"),
    ("my-bucket", "wh/hidden/"),
    ("my-bucket", "wh/"),
    ("my-bucket", ""),
    ("my-bucket", "stage/"),
    ("my-bucket", "stage/deep/"),
    ("my-bucket", "folders/"),
    ("my-bucket", "folders/a./"),
    ("my-bucket", "folders/a;b/"),
    ("my-bucket", "secret/"),
    ("my-other", "b/b1/data/"),
    ("raw", ""),
    ("raw", "any/"),
    ("vault", "a/"),
    ("tmp-1", ""),
    ("tmp-1", "x/"),
    ("far", "dark/"),
    ("nowhere", "a/"),
)
NAMES = (
    "a.parquet",
    "part-0_1~x.0",
    "stage",
    "folders",
    "secret",
    "wh",
    "t1",
    "metadata",
    "v1.metadata.json",
    "v1.metadata.json.gz",
    "x.gz.metadata.json",
    "version-hint.text",
    ".metadata.json",
    "a.",
    ".a",
    ".",
    "..",
    "a;b",
    "a b",
    "a%2Fb",
    "a/b",
    "",
)
CALLERS = ("reader", "writer", "owner", "copier", "watched", "far", "stranger")


def told(site: Site, who: str, method: str, bucket: str, key: str) -> object:
    """Return all that the gate says of a request, by what it is decided."""
    judgement = finished(judged(site.gate, Subject.of(caller(who)), AskedFor(forward=wire(method, bucket, key))))
    if judgement.refused is not None:
        return judgement.refused.reason
    passed = judgement.passed
    assert isinstance(passed, Passed)
    allow = passed.allow
    return (
        *(allow.table, allow.volume, allow.write_once, allow.authority.rule_id),
        *(passed.observed and passed.observed.reason, passed.refused, judgement.catalog, judgement.table_uuid),
        *(passed.forwardable.headers, passed.forwardable.request.headers, passed.forwardable.request.payload),
        *(passed.forwardable.request.operation, passed.forwardable.request.canonical_path.rpartition("/")[0]),
    )


@pytest.mark.parametrize("method", ("GET", "HEAD"))
@pytest.mark.parametrize("who", CALLERS)
def test_the_gate_says_the_same_of_every_neighbour(who: str, method: str) -> None:
    """A neighbour that the gate would refuse would be read on the word of the one before."""
    site = Site()
    held = 0
    for bucket, folder in PLACES:
        for name in NAMES:
            subject = Subject.of(caller(who))
            found = site.gate.forward.neighbours(subject, AskedFor(forward=wire(method, bucket, folder + name)))
            if found is None:
                continue
            first = told(site, who, method, bucket, folder + name)
            for other in NAMES:
                key = found[1].key_of(other)
                assert key in ("", found[1].folder + other)
                if key:
                    held += 1
                    assert told(site, who, method, bucket, key) == first, (key, folder + name)
    assert held > 20 or who in ("far", "stranger")


@given(
    names=st.lists(st.text(st.characters(max_codepoint=0x200), max_size=6), min_size=1, max_size=8),
    place=st.sampled_from(PLACES),
    who=st.sampled_from(("reader", "writer", "owner")),
)
def test_no_spelling_of_a_name_is_a_neighbour_that_the_gate_would_not_let_pass(
    names: list[str], place: tuple[str, str], who: str
) -> None:
    """Whatever a name is made of, either it is judged for itself or the answer is the same."""
    site = Site()
    bucket, folder = place
    found = site.gate.forward.neighbours(
        Subject.of(caller(who)), AskedFor(forward=wire("GET", bucket, f"{folder}a.parquet"))
    )
    if found is None:
        return
    first = told(site, who, "GET", bucket, f"{folder}a.parquet")
    for name in names:
        key = found[1].key_of(name)
        if key:
            assert told(site, who, "GET", bucket, key) == first


@pytest.mark.parametrize(
    ("method", "query", "headers"),
    (
        ("PUT", None, {}),
        ("DELETE", None, {}),
        ("GET", "tagging", {}),
        ("GET", "partNumber=1", {}),
        ("PUT", None, {"x_amz_copy_source": "my-bucket/wh/t1/data/b"}),
    ),
)
def test_only_plain_reads_have_neighbours(method: str, query: str | None, headers: dict[str, str]) -> None:
    """Of anything else more than the folder counts."""
    asked = wire(method, "my-bucket", "wh/t1/data/a", query, None, **headers)
    assert Site().gate.forward.neighbours(Subject.of(caller("owner")), AskedFor(forward=asked)) is None


def test_a_name_has_room_in_its_key() -> None:
    """A key that is too long for S3 would be sent."""
    found = Site().gate.forward.neighbours(
        Subject.of(caller("reader")), AskedFor(forward=wire("GET", "my-bucket", "wh/t1/data/a"))
    )
    assert found is not None
    room = 1024 - len("wh/t1/data/")
    assert found[1].key_of("a" * room)
    assert not found[1].key_of("a" * (room + 1))


def test_who_is_only_observed_is_looked_at_each_time() -> None:
    """What would have been refused has to be recorded of each."""
    site = Site()
    subject = Subject.of(caller("watched"))
    hidden, open_to_it = (AskedFor(forward=wire("GET", "my-bucket", key)) for key in ("wh/hidden/a", "wh/t1/a"))
    assert site.gate.forward.neighbours(subject, hidden) is None
    assert site.gate.forward.neighbours(subject, open_to_it) is not None


def neighbours_of(bucket: str, key: str, who: str = "owner") -> Neighbours | None:
    """Return those of a key that is sent as it is."""
    found = Site().gate.forward.neighbours(Subject.of(caller(who)), AskedFor(forward=wire("GET", bucket, key)))
    return None if found is None else found[1]


@pytest.mark.parametrize(
    "key",
    (
        "wh/t1/data/a;b/x",
        "wh/t1/data/a./x",
        "wh/t1/data/a,b/x",
        "wh/t1/data/a,b",
        "wh/t1/data/x.",
        "wh/t1/data/v1.metadata.json",
        "wh/t1/data/v1.metadata.json.gz",
        "wh/t1/data/version-hint.text",
    ),
)
def test_a_key_that_some_store_may_read_otherwise_says_nothing_of_others(key: str) -> None:
    """It was decided about in more than one reading, and its neighbours would be in none."""
    assert neighbours_of("my-bucket", key) is None
    assert neighbours_of("my-bucket", "wh/t1/data/plain") is not None


@pytest.mark.parametrize(
    ("name", "holds"),
    (
        ("a", True),
        ("ab", True),
        ("-", True),
        ("a.b", True),
        ("a..b", True),
        ("v1.metadata.jsonx", True),
        ("metadata.json", True),
        ("", False),
        (".a", False),
        ("a.", False),
        ("a\n", False),
        ("a/b", False),
        ("a\xb2", False),
        ("x.metadata.json", False),
        ("x.metadata.json.gz", False),
        ("version-hint.text", False),
    ),
)
def test_neighbours_have_plain_names_that_are_not_those_of_metadata(name: str, holds: bool) -> None:
    """What is served on the word of another key must be beyond doubt."""
    found = neighbours_of("my-bucket", "wh/t1/data/plain")
    assert found is not None
    assert found.key_of(name) == (f"wh/t1/data/{name}" if holds else "")


def test_the_name_of_a_volume_s_folder_is_no_neighbour_of_what_lies_beside_it() -> None:
    """Clients that see folders ask for it, and it belongs to the volume."""
    found = neighbours_of("raw", "plain")
    assert found is not None
    assert found.key_of("other") == "other"
    at_the_top = neighbours_of("my-bucket", "stage", "writer")
    assert at_the_top is None or not at_the_top.key_of("folders")


def test_a_query_is_asked_of_each() -> None:
    """A version, or a part, is another object than the key names."""
    site = Site()
    passed = finished(site.passed(wire("GET", "my-bucket", "wh/t1/data/a"), "owner"))
    asked = passed.forwardable.request
    assert neighbours([], asked) is not None
    assert neighbours([], replace(asked, canonical_query="versionId=3")) is None

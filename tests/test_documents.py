"""Documents: what an operator writes is read exactly, or refused with the place of the fault."""

from __future__ import annotations

import enum
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from signproxy.documents import MAX_ALIASED, MAX_DEPTH, MAX_FINDINGS, decode, load_yaml
from signproxy.errors import DocumentInvalid


class Stamp(enum.Enum):
    """An enum with a value that YAML 1.1 takes for false."""

    QUERY = "query"
    OFF = "off"


class Place(msgspec.Struct, frozen=True):
    """A Struct with bounds and a check of its own."""

    bucket: Annotated[str, Meta(min_length=1)]
    depth: Annotated[int, Meta(ge=1, le=9)] = 1

    def __post_init__(self) -> None:
        if self.bucket == "taken":
            raise ValueError("this bucket is taken")


class Circle(msgspec.Struct, frozen=True, tag_field="kind", tag="circle"):
    """One member of a tagged union."""

    radius: int


class Square(msgspec.Struct, frozen=True, tag_field="kind", tag="square"):
    """The other one."""

    side: int


class Sheet(msgspec.Struct, frozen=True, rename={"class_": "class"}):
    """Everything that a document can hold."""

    class_: str
    stamp: Stamp = Stamp.QUERY
    places: dict[str, Place] = {}
    order: tuple[Place, ...] = ()
    shapes: list[Circle | Square] = []
    level: Literal["low", "high"] = "low"
    ratio: float = 0.5
    on: bool = False
    limit: int | None = None
    names: tuple[str, ...] | str = ()
    pair: tuple[int, str] = (1, "x")
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{4}$", max_length=4)] = "0000"
    tags: Annotated[tuple[str, ...], Meta(max_length=2)] = ()
    tag_set: frozenset[str] = frozenset()
    nothing: None = None
    free: object = None


def sheet(text: str) -> Sheet:
    return decode(Sheet, load_yaml(text, "f.yaml"), file="f.yaml")


def faults_of(text: str) -> list[str]:
    with pytest.raises(DocumentInvalid) as caught:
        sheet(text)
    return [str(finding) for finding in caught.value.findings]


@pytest.mark.parametrize(
    ("written", "value"),
    (
        ("off", "off"),  # YAML 1.1 says false
        ("yes", "yes"),
        ("no", "no"),  # Norway
        ("true", True),
        ("False", False),
        ("2026-01-02", "2026-01-02"),  # a date object elsewhere
        ("12:30", "12:30"),  # 750 in YAML 1.1
        ("012345678901", "012345678901"),  # an account id keeps its zero
        ("0o17", "0o17"),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        ("0", 0),
        ("-17", -17),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        (".inf", ".inf"),
        ("nan", "nan"),
        ("12345678901234567890123", "12345678901234567890123"),  # beyond 64 bits
        ("~", None),
        ("", None),
        ("null", None),
        ("'null'", "null"),
        ("'7'", "7"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
        ("{x: [1, two]}", {"x": [1, "two"]}),
        ('{"x": "\\u00e9"}', {"x": "é"}),
    ),
)
def test_a_scalar_is_what_it_looks_like(written: str, value: object) -> None:
    """An operator's `stamp: off` or account id would silently become something else."""
    loaded = load_yaml(f"key: {written}", "f")
    assert loaded == {"key": value}
    assert isinstance(loaded, dict)
    assert type(loaded["key"]) is type(value)


def test_keys_are_text() -> None:
    """A role named `on` or `7` could not be found again."""
    assert load_yaml("on: 1\n7: 2\nnull: 3\n2026-01-02: 4", "f") == {"on": 1, "7": 2, "null": 3, "2026-01-02": 4}


@pytest.mark.parametrize("text", ("", "# nothing\n", "---\n", "~", "--- null"))
def test_an_empty_document_is_an_empty_mapping(text: str) -> None:
    """A settings file with everything commented out would not start."""
    assert load_yaml(text, "f") == {}


def test_aliases_repeat_their_anchor() -> None:
    """Shared parts of a hand-written policy would have to be copied."""
    assert load_yaml("a: &x {b: [1]}\nc: *x\nd: &k key\ne: {*k : 1}", "f") == {
        "a": {"b": [1]},
        "c": {"b": [1]},
        "d": "key",
        "e": {"key": 1},
    }


@pytest.mark.parametrize(
    ("text", "finding"),
    (
        ("a: 1\nb: 2\na: 3", "f.yaml: line 3: key 'a' is given twice"),
        ("x:\n  a: 1\n  a: 1", "f.yaml: line 3: key 'a' is given twice"),
        ("7: 1\n'7': 2", "f.yaml: line 2: key '7' is given twice"),
        ("a: &a {b: *a}", "f.yaml: line 1: this alias has no anchor; quote a value that begins with *"),
        ("a: *secret", "f.yaml: line 1: this alias has no anchor; quote a value that begins with *"),
        ("a: &a [1]\nb: {*a : 2}", "f.yaml: line 2: a key is text; this alias is something else"),
        ("{[1]: 2}", "f.yaml: line 1: a key is text, not a mapping or a list"),
        ("a: &a {x: 1}\nb:\n  <<: *a", "f.yaml: line 3: merge keys (<<) are not read; repeat the keys"),
        ("a: !!python/object:os.system x", "f.yaml: line 1: tags are not read; quote a value that begins with !"),
        ("a: !!int 7", "f.yaml: line 1: tags are not read; quote a value that begins with !"),
        ("a: !secret {}", "f.yaml: line 1: tags are not read; quote a value that begins with !"),
        ("a: 1\n---\nb: 1", "f.yaml: line 2: a file holds one document only"),
    ),
)
def test_what_a_reviewer_would_misread_is_refused(text: str, finding: str) -> None:
    """Two people would read one file as two policies."""
    with pytest.raises(DocumentInvalid) as caught:
        load_yaml(text, "f.yaml")
    assert str(caught.value) == finding


@pytest.mark.parametrize(
    "text", ("a: [1,", "a: 'open", "a: b: c", "\ta: 1", "a: \x00", "a: \x1b", '{"a": "\\ud800"}', "%")
)
def test_what_is_no_yaml_names_its_file(text: str) -> None:
    """A start would end in a stack trace."""
    with pytest.raises(DocumentInvalid) as caught:
        load_yaml(text, "f.yaml")
    assert str(caught.value).startswith("f.yaml: ")


def test_a_lone_surrogate_is_refused() -> None:
    """Text that a caller decoded leniently would crash the parser."""
    with pytest.raises(DocumentInvalid, match=r"^f\.yaml: not readable as text"):
        load_yaml("a: \udc80", "f.yaml")


def test_a_few_lines_cannot_unfold_to_gigabytes() -> None:
    """One line of a shared policy repository could end every signer that reads it."""
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    with pytest.raises(DocumentInvalid, match=f"aliases repeat more than {MAX_ALIASED} values"):
        load_yaml(bomb, "f")


def test_nesting_is_bounded() -> None:
    """A file of brackets would exhaust the stack."""
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert load_yaml(deepest, "f") is not None
    with pytest.raises(DocumentInvalid, match=f"nested deeper than {MAX_DEPTH} levels"):
        load_yaml(f"[{deepest}]", "f")
    with pytest.raises(DocumentInvalid):
        load_yaml("[" * 200_000, "f")


def test_a_whole_document_becomes_its_type() -> None:
    """A correct file would be refused."""
    read = sheet(
        """
        class: c
        stamp: off
        places: {a.b: {bucket: x, depth: 9}}
        order: [{bucket: y}]
        shapes: [{kind: square, side: 2}, {kind: circle, radius: 1}]
        level: high
        ratio: 2
        on: true
        limit: ~
        names: one
        pair: [2, b]
        digest: ab01
        tags: [t, u]
        free: [any, {thing: 1}]
        """
    )
    assert read == Sheet(
        class_="c",
        stamp=Stamp.OFF,
        places={"a.b": Place("x", 9)},
        order=(Place("y"),),
        shapes=[Square(2), Circle(1)],
        level="high",
        ratio=2.0,
        on=True,
        names="one",
        pair=(2, "b"),
        digest="ab01",
        tags=("t", "u"),
        free=["any", {"thing": 1}],
    )


@pytest.mark.parametrize(
    ("text", "findings"),
    (
        ("clas: c", ["clas: unknown key (did you mean 'class'?)", "class: this key is missing"]),
        ("{class: c, class_: d}", ["class_: unknown key (did you mean 'class'?)"]),  # the Python name is none
        (
            "{class: c, places: {p: {bucket: x, zzz: 1}}}",
            ["places.p.zzz: unknown key; known keys: bucket, depth"],
        ),
        ("{class: c, places: {a.b: {}}}", ["places['a.b'].bucket: this key is missing"]),
        (
            "{class: c, order: [{bucket: a}, {bucket: 7}]}",
            ["order[1].bucket: text expected, got a number; put it in quotes"],
        ),
        ("{class: c, order: [{bucket: ''}]}", ["order[0].bucket: must not be empty"]),
        ("{class: c, order: {bucket: a}}", ["order: a list expected, got a mapping"]),
        ("{class: c, tags: one}", ["tags: a list expected, got text; write [value] for a single one"]),
        ("{class: c, tags: [a, b, c]}", ["tags: is too long: at most 2, got 3"]),
        (
            "{class: c, places: {p: {bucket: b, depth: 0}}}",
            ["places.p.depth: 0 is out of range: at least 1 and at most 9"],
        ),
        (
            "{class: c, places: {p: {bucket: b, depth: 10}}}",
            ["places.p.depth: 10 is out of range: at least 1 and at most 9"],
        ),
        (
            "{class: c, places: {p: {bucket: b, depth: true}}}",
            ["places.p.depth: a whole number expected, got true or false"],
        ),
        ("{class: c, places: {p: {bucket: b, depth: 1.0}}}", ["places.p.depth: a whole number expected, got a number"]),
        # The walk names the member; msgspec alone would say `places[...]`.
        ("{class: c, places: {p: {bucket: taken}}}", ["places.p: this bucket is taken"]),
        ("{class: c, stamp: of}", ["stamp: 'of' is none of query, off (did you mean 'off'?)"]),
        ("{class: c, stamp: false}", ["stamp: one of query, off expected, got true or false"]),
        ("{class: c, level: mid}", ["level: 'mid' is none of high, low"]),
        ("{class: c, on: yes}", ["on: true or false expected, got text; only true and false are booleans here"]),
        ("{class: c, ratio: much}", ["ratio: a number expected, got text"]),
        ("{class: c, limit: x}", ["limit: a whole number expected, got text"]),
        ("{class: c, names: {a: 1}}", ["names: a list or text expected, got a mapping"]),
        ("{class: c, names: [a, 1]}", ["names[1]: text expected, got a number; put it in quotes"]),
        ("{class: c, pair: [1]}", ["pair: 2 items expected, got 1"]),
        ("{class: c, pair: [a, b]}", ["pair[0]: a whole number expected, got text"]),
        ("{class: c, ratio: []}", ["ratio: a number expected, got a list"]),
        ("{class: c, on: 1}", ["on: true or false expected, got a number"]),
        ("{class: c, level: []}", ["level: one of high, low expected, got a list"]),
        ("{class: c, nothing: 1}", ["nothing: nothing expected, got a number"]),
        ("{class: c, tag_set: [a, a, 1]}", ["tag_set[2]: text expected, got a number; put it in quotes"]),
        ("{class: c, digest: zz}", ["digest: is not of the form ^[0-9a-f]{4}$"]),
        ("{class: c, shapes: [{side: 1}]}", ["shapes[0].kind: this key is missing; one of circle, square is expected"]),
        (
            "{class: c, shapes: [{kind: squar, side: 1}]}",
            ["shapes[0].kind: 'squar' is none of circle, square (did you mean 'square'?)"],
        ),
        (
            "{class: c, shapes: [{kind: square, size: 1}]}",
            [
                "shapes[0].size: unknown key (did you mean 'side'?)",
                "shapes[0].side: this key is missing",
            ],
        ),
        ("[]", ["a mapping expected, got a list"]),
        ("class:", ["class: text expected, got nothing"]),
    ),
)
def test_each_fault_names_file_path_and_neighbour(text: str, findings: list[str]) -> None:
    """An operator who mistyped one key of a long file would have to guess which."""
    assert faults_of(text) == [f"f.yaml: {finding}" for finding in findings]


def test_the_place_of_a_part_of_a_file_is_kept() -> None:
    """A policy that is decoded section by section would name paths that are not in the file."""
    with pytest.raises(DocumentInvalid) as caught:
        decode(Place, {"buckt": "x"}, file="f.yaml", path="catalogs.lake.places[3]")
    assert [finding.path for finding in caught.value.findings] == [
        "catalogs.lake.places[3].buckt",
        "catalogs.lake.places[3].bucket",
    ]


def test_a_container_type_is_decoded_as_well() -> None:
    """Only whole Structs could be read."""
    assert decode(dict[str, Place], {"a": {"bucket": "b"}}, file="f") == {"a": Place("b")}


def test_wrong_values_are_not_repeated() -> None:
    """A secret pasted under the wrong key would stand in the log."""
    faults = faults_of("{class: {x: hunter2}, places: hunter2, limit: hunter2, on: hunter2}")
    assert len(faults) == 4
    assert not any("hunter2" in fault for fault in faults)


@pytest.mark.parametrize(
    ("faults", "listed"), ((MAX_FINDINGS, MAX_FINDINGS), (MAX_FINDINGS + 1, MAX_FINDINGS + 1), (500, MAX_FINDINGS + 1))
)
def test_the_report_is_bounded(faults: int, listed: int) -> None:
    """A log fed to the policy loader would print a finding per line."""
    with pytest.raises(DocumentInvalid) as caught:
        decode(Sheet, {"class": "c", **{f"k{n}": 1 for n in range(faults)}}, file="f")
    findings = caught.value.findings
    assert len(findings) == listed
    assert (str(findings[-1]) == f"f: more than {MAX_FINDINGS} faults; the rest is not listed") is (
        faults > MAX_FINDINGS
    )


def test_a_type_that_only_msgspec_knows_is_still_checked() -> None:
    """A type that the walk does not know would raise what no caller catches."""
    with pytest.raises(DocumentInvalid, match=r"^f: at: "):
        decode(bytes, "not base64!", file="f", path="at")


def test_what_no_document_holds_is_named_by_its_type() -> None:
    """A caller in Python would not see what it passed."""
    with pytest.raises(DocumentInvalid, match=r"^f: class: text expected, got bytes$"):
        decode(Sheet, {"class": b"c"}, file="f")

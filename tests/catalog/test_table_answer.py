"""Answers with a table: what is learned of them, what is taken out and put in, and which restrict their reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.catalog.client_properties import StoreAddress
from signproxy.catalog.json_object import JsonInvalid, read_members
from signproxy.catalog.signer_grant import SignerGrant
from signproxy.catalog.storage_credential import StorageCredential
from signproxy.catalog.table_answer import RESTRICTIONS, TableAnswer, read_table, restricts
from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.sighting import TableFacts
from tests.catalog.answers import GRANT, KEYS, LOCATION, METADATA_LOCATION, STORE, UUID, encoded, metadata, table

_ADDRESS = STORE.properties


def read(value: object) -> TableAnswer:
    return read_table(value if isinstance(value, bytes) else encoded(value), "ns", "t")


def told(value: object, store: StoreAddress | None = STORE, grant: SignerGrant | None = GRANT) -> dict[str, Any]:
    answer = json.loads(b"".join(read(value).with_grant(store, grant)))
    assert isinstance(answer, dict)
    return answer


# -- facts ---------------------------------------------------------------------------------------------------------


def test_facts_are_those_of_the_metadata() -> None:
    """Signproxy would sign for another place than the client reads."""
    assert read(table()).facts == TableFacts(
        "ns", "t", UUID, LOCATION, {"write.data.path": f"{LOCATION}/data"}, METADATA_LOCATION
    )


def test_every_property_with_a_location_is_read_and_no_other() -> None:
    """Files would lie where nothing is signed; and properties may be many."""
    given = {
        "write.metadata.path": "s3://lake/m",
        "write.data.path": "s3a://lake/d",
        "write.object-storage.path": "s3://lake/o",
        "write.folder-storage.path": "",
    }
    properties = {**{f"p{number}": "x" for number in range(1000)}, **given, "write.other.path": "s3://lake/x"}
    assert read(table(metadata=metadata(properties=properties))).facts.properties == given


@pytest.mark.parametrize("properties", (None, {}, {"write.data.path": None}))
def test_properties_that_are_not_set_are_none(properties: object) -> None:
    """A table without any would be refused."""
    assert read(table(metadata=metadata(properties=properties))).facts.properties == {}


@pytest.mark.parametrize("missing", (None, "absent", ""))
def test_a_staged_table_has_no_metadata_location(missing: str | None) -> None:
    """Nessie sends null, Iceberg's own servers leave it out; neither may break a create."""
    answer = table()
    if missing == "absent":
        del answer["metadata-location"]
    else:
        answer["metadata-location"] = missing
    read_back = told(answer)
    assert read(answer).facts.metadata_location == ""
    assert read_back.get("metadata-location", "absent") == missing


# -- what is taken out ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grant", (GRANT, None))
@pytest.mark.parametrize("store", (STORE, None))
def test_keys_go_in_any_case(grant: SignerGrant | None, store: StoreAddress | None) -> None:
    """A caller that gets a key needs no signature."""
    content = b"".join(read(table(**{"vended-credentials": KEYS, "x": KEYS})).with_grant(store, grant))
    for value in KEYS.values():
        assert value.encode() not in content
    answer = json.loads(content)
    # An entry without a key would have DuckDB send unsigned requests.
    assert "storage-credentials" not in answer
    assert answer.keys() <= {"metadata-location", "metadata", "config", "remote-signing-config"}
    assert "evil" not in str(answer)


def test_the_upstreams_own_signer_is_not_used() -> None:
    """The client would have its requests signed past signproxy."""
    foreign = {
        "s3.remote-signing-enabled": "true",
        "s3.signer.uri": "https://evil.example/",
        "signer.uri": "https://evil.example/",
        "signer.endpoint": "sign",
    }
    answer = told(
        table(config=foreign, **{"remote-signing-config": {"headers": {"Authorization": ["evil"]}}}), grant=None
    )
    assert answer["config"] == _ADDRESS
    assert "remote-signing-config" not in answer


def test_metadata_passes_byte_for_byte() -> None:
    """A number or an escape that is written anew may be another one for Java."""
    odd = (
        b'{ "table-uuid":"u-1", "x":1.0E2,"location" : "s3:\\/\\/lake\\/t","y":[1, 2 ],'
        b'"z":"\\u00e9\xc3\xa9\\ud83d\\ude00","n":12345678901234567890 }'
    )
    content = b'{"config":{},"metadata" : ' + odd + b' ,"metadata-location":"s3:\\/\\/lake"}'
    answer = read(content)
    assert answer.facts.location == "s3://lake/t"
    for made in map(b"".join, (answer.with_grant(STORE, GRANT), answer.with_grant(None, None), answer.of_commit())):
        assert b'"metadata":' + odd in made
        assert b'"metadata-location":"s3:\\/\\/lake"' in made
        json.loads(made)


def test_what_readers_have_to_leave_out_is_not_lifted() -> None:
    """Rows or columns that the catalog hides would be shown."""
    restrictions = {"required-row-filter": {"type": "eq", "term": "x", "value": 1}}
    assert told(table(**{"read-restrictions": restrictions}))["read-restrictions"] == restrictions
    assert "read-restrictions" not in told(table())


# -- what is put in ------------------------------------------------------------------------------------------------


def test_the_signer_is_told_to_whom_it_is_granted() -> None:
    """Without one of these keys some client never signs."""
    answer = told(table())
    assert answer["config"] == {
        **_ADDRESS,
        "s3.delete-enabled": "false",
        "s3.remote-signing-enabled": "true",
        "s3.signer": "S3V4RestSigner",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "s3.signer.uri": "https://sign.example/catalogs/lake/",
        "s3.signer.endpoint": "v1/lake/namespaces/ns/tables/t/sign",
    }
    assert answer["remote-signing-config"] == GRANT.signing_config


def test_a_caller_without_a_grant_is_told_of_the_store_alone() -> None:
    """A client with keys of its own still has to find the store, which no other party may name."""
    answer = told(table(), grant=None)
    assert answer["config"] == {**_ADDRESS, "s3.delete-enabled": "false"}
    assert "remote-signing-config" not in answer


@pytest.mark.parametrize("config", ({}, None, {"s3.access-key-id": "x"}))
def test_the_configuration_is_never_empty(config: object) -> None:
    """Iceberg 1.12 would use its catalog's FileIO, which fails for want of a table to sign for."""
    assert told(table(config=config), None, None)["config"] == {"s3.remote-signing-enabled": "false"}
    assert told(table(config=config), STORE, None)["config"] == _ADDRESS
    answer = table()
    del answer["config"]
    assert told(answer, None, None)["config"] == {"s3.remote-signing-enabled": "false"}


def test_the_answer_to_a_commit_is_the_table_alone() -> None:
    """Servers answer a commit as they answer a load, keys included."""
    answer = json.loads(b"".join(read(table()).of_commit()))
    assert answer == {"metadata-location": METADATA_LOCATION, "metadata": metadata()}


def test_an_answer_is_always_the_same() -> None:
    """Its ETag would stand for several."""
    first, second = read(table()), read(table(config=dict(reversed(list(table()["config"].items())))))
    assert first.with_grant(STORE, GRANT) == second.with_grant(STORE, GRANT)


# -- what is refused -----------------------------------------------------------------------------------------------


def _without(name: str) -> dict[str, Any]:
    changed = metadata()
    del changed[name]
    return changed


_INVALID: tuple[object, ...] = (
    b"",
    b"[]",
    b"<html>",
    b"\xef\xbb\xbf" + encoded(table()),
    encoded(table())[:-1],
    encoded(table()) + b"x",
    encoded(table()).decode().encode("utf-16"),
    encoded(table(metadata=metadata(x="\u00e9"))).replace("\u00e9".encode(), b"\xe9"),
    encoded(table()).replace(b'"last-updated-ms":1', b'"last-updated-ms":NaN'),
    encoded(table()).replace(b'"last-updated-ms":1', b'"x":' + b"[" * 100_000 + b"]" * 100_000),
    {},
    {"metadata": None},
    {"metadata": []},
    {"metadata": "text"},
    table(config=[]),
    table(config="text"),
    table(**{"metadata-location": 1}),
    table(**{"metadata-location": {"a": "b"}}),
    table(metadata=_without("table-uuid")),
    table(metadata=_without("location")),
    table(metadata=metadata(location="")),
    table(metadata=metadata(location=None)),
    table(metadata=metadata(location=1)),
    table(metadata=metadata(location=["s3://a"])),
    table(metadata=metadata(**{"table-uuid": ""})),
    table(metadata=metadata(**{"table-uuid": "x" * 65})),
    table(metadata=metadata(**{"table-uuid": "a\nb"})),
    table(metadata=metadata(properties=[])),
    table(metadata=metadata(properties={"write.data.path": 1})),
    encoded(table()).replace(b"s3://lake/wh/ns/t/data", b"\\ud800"),
    # Of two locations the client would take one and signproxy the other.
    encoded(table()).replace(b'"location":"s3', b'"location":"s3://lake/wh/other","location":"s3', 1),
    encoded(table()).replace(b'"location":"s3', b'"loc\\u0061tion":"s3://lake/wh/other","location":"s3', 1),
    encoded(table()).replace(b'"table-uuid"', b'"table-uuid":"other","table-uuid"'),
    encoded(table()).replace(b'"properties":', b'"properties":{},"properties":'),
    encoded(table()).replace(b'"write.data.path"', b'"write.data.path":"s3://lake/wh/other","write.data.path"'),
    encoded(table()).replace(b'"metadata":{', b'"metadata":{"location":"s3://lake/wh/other"},"metadata":{', 1),
    encoded(table()).replace(b'"config":', b'"config":{},"config":'),
    encoded(table()).replace(b'"s3.delete-enabled"', b'"s3.delete-enabled":"true","s3.delete-enabled"'),
)


@pytest.mark.parametrize("content", _INVALID, ids=lambda value: str(value)[:30])
def test_an_answer_that_is_no_table_is_refused(content: object) -> None:
    """A fault of signproxy, a table in the wrong place, or two readings of one answer."""
    with pytest.raises(Refused) as refused:
        read(content)
    assert refused.value.reason is Reason.UPSTREAM_INVALID
    assert len(refused.value.detail) < 500


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(
    extra=st.dictionaries(st.text(max_size=8), _JUNK, max_size=5),
    indent=st.sampled_from((None, 1, 4)),
    ascii_only=st.booleans(),
    grant=st.sampled_from((GRANT, None)),
)
def test_whatever_a_table_holds_its_metadata_is_untouched(
    extra: dict[str, Any], indent: int | None, *, ascii_only: bool, grant: SignerGrant | None
) -> None:
    """A table of a later version of the format would be damaged on its way."""
    inner = json.dumps(
        metadata(**{f"x{name}": value for name, value in extra.items()}), indent=indent, ensure_ascii=ascii_only
    )
    content = f'{{"config":{{}},\n "metadata":{inner} , "metadata-location": null}}'.encode()
    answer = read(content)
    assert answer.facts.location == LOCATION
    assert inner.encode() in b"".join(answer.with_grant(STORE, grant))
    assert json.loads(b"".join(answer.with_grant(STORE, grant)))["metadata"] == json.loads(inner)
    assert inner.encode() in b"".join(answer.of_commit())


# -- restrictions ----------------------------------------------------------------------------------------------------

MASK = {"field-id": 3, "action": "mask-alphanum"}
FILTER = {"type": "eq", "term": "region", "value": "EU"}


def _answer(restrictions: str, name: str = RESTRICTIONS) -> bytes:
    text = json.dumps(table())
    return f'{text[:-1]},"{name}":{restrictions}}}'.encode()


@pytest.mark.parametrize(
    "said",
    (
        "null",
        "{}",
        " { } ",
        '{"required-row-filter":null}',
        '{"required-row-filter": true}',
        '{"required-row-filter":{"type":"true"}}',
        '{"required-row-filter":{ "type" : "true" }}',
        '{"required-column-projections":[]}',
        '{"required-column-projections": [ ]}',
        '{"required-column-projections":null,"required-row-filter":null}',
        # A member of later days that says nothing.
        '{"required-sampling":null}',
    ),
)
def test_what_the_specification_says_restricts_nothing_does_not(said: str) -> None:
    """Servers that always send the member would have every one of their tables refused."""
    assert read_table(_answer(said), "ns", "t1").restricted is False


@pytest.mark.parametrize(
    "said",
    (
        json.dumps({"required-row-filter": FILTER}),
        json.dumps({"required-column-projections": [MASK]}),
        json.dumps({"required-column-projections": [], "required-row-filter": FILTER}),
        json.dumps({"required-column-projections": [MASK], "required-row-filter": None}),
        # Nothing that is there may be read as nothing, unless it is known to be.
        '{"required-row-filter":false}',
        '{"required-row-filter":{}}',
        '{"required-row-filter":{"type":"false"}}',
        '{"required-row-filter":{"type":"true","term":"x"}}',
        '{"required-row-filter":{"type":"false","type":"true"}}',
        '{"required-row-filter":"true"}',
        '{"required-row-filter":[]}',
        '{"required-row-filter":""}',
        '{"required-row-filter":0}',
        '{"required-column-projections":{}}',
        '{"required-column-projections":[null]}',
        '{"required-column-projections":""}',
        '{"required-column-projections":true}',
        # A later specification, or a vendor's own.
        '{"required-sampling":{"rows":0.1}}',
        '{"required-sampling":true}',
        '{"required-sampling":[]}',
        "[]",
        '""',
        '"none"',
        "false",
        "true",
        "0",
        # White space without end is not looked through.
        '{"required-column-projections":[' + " " * 63 + "]}",
    ),
)
def test_everything_else_restricts(said: str) -> None:
    """Whole files would reach a caller from whom the catalog keeps rows or columns."""
    assert read_table(_answer(said), "ns", "t1").restricted is True


@pytest.mark.parametrize("name", ("Read-Restrictions", "READ-RESTRICTIONS"))
def test_another_spelling_of_the_name_restricts(name: str) -> None:
    """Parsers that take names of another case for the same would enforce what signproxy had not seen."""
    assert read_table(_answer("{}", name), "ns", "t1").restricted is True
    assert read_table(_answer("null", name), "ns", "t1").restricted is False


def test_without_the_member_nothing_is_restricted() -> None:
    """No upstream of today sends it."""
    assert read_table(json.dumps(table()).encode(), "ns", "t1").restricted is False
    assert restricts(read_members(b'{"read-restriction":{"required-row-filter":1}}')) is False


def test_white_space_up_to_its_bound_is_read() -> None:
    """A server that indents its answers sends some."""
    assert (
        restricts(read_members(b'{"read-restrictions":{"required-column-projections":[' + b" " * 62 + b"]}}")) is False
    )


def test_members_that_are_given_twice_make_no_answer() -> None:
    """Of an empty filter and one that counts, the client might take the one and signproxy the other."""
    with pytest.raises(JsonInvalid):
        read_members(b'{"read-restrictions":{"required-row-filter":1,"required-row-filter":null}}')


def test_keys_of_the_listener_are_not_sent_to_it_in_the_style_of_the_store() -> None:
    """PyIceberg would look for a host of the bucket's name in front of the listener's, and find none."""
    store = StoreAddress("r", "https://store.example", path_style=False)
    own = StorageCredential("s3://b/t/", {"s3.access-key-id": "SPK1", **store.through("http://listener").properties})
    config = json.loads(b"".join(read(table()).with_grant(store, None, own)))["config"]
    assert config["s3.endpoint"] == "http://listener"
    assert config["s3.path-style-access"] == "true"
    assert "s3.force-virtual-addressing" not in config

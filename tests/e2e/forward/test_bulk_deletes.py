"""Send bulk deletes that two readers of XML would read differently: real stores keep what was refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from tests.e2e.conftest import Shelf
from tests.e2e.forward.door import CATALOG, Door, run_door, storage_of, table_policy
from tests.e2e.forward.signer import content_md5, target_of, upload
from tests.e2e.stores import SEAWEEDFS, VERSITYGW, RunningStore
from tests.e2e.stores.contents import objects_of, parse
from tests.e2e.stores.direct import Owner
from tests.e2e.wire import Answer

pytestmark = pytest.mark.ci

BUCKET = "bulk-deletes"
VICTIMS = {
    "wh/own/metadata/v1.metadata.json": ".json",
    "wh/own/inner/data/b": "r/data",
    "wh/shut/metadata/snap.avro": "a/snap",
    "wh/other/data/c": "r/data",
}
"""Metadata under `protected` and `sealed`, a table nested under `overlap: allowed`, and a table beside; each with where
it is spelled by a reference, so that a key which holds that reference itself lies in the caller's own table."""


class House(NamedTuple):
    store: RunningStore
    door: Door
    owner: Owner


@pytest.fixture(scope="module", params=(VERSITYGW, SEAWEEDFS), ids=str)
def house(request: pytest.FixtureRequest, shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    store = shelf.get(request.param)
    mine = ["TABLE_WRITE_DATA"]
    policy = table_policy(storage_of(store, [BUCKET]), BUCKET, {"own": mine, "shut": mine, "other": []})
    policy["catalogs"][CATALOG]["overlap"] = "allowed"
    policy["tables"][1]["metadata"] = "sealed"
    policy["tables"].append({**policy["tables"][0], "name": "inner", "location": f"s3://{BUCKET}/wh/own/inner"})
    with closing(Owner(store)) as owner, run_door(tmp_path_factory.mktemp("bulk"), store, policy) as door:
        owner.must("PUT", BUCKET)
        yield House(store, door, owner)


@pytest.fixture(autouse=True)
def _laid_out(house: House) -> None:
    for key in (*VICTIMS, "wh/own/data/a"):
        house.owner.must("PUT", f"{BUCKET}/{key}", body=b"content")


def kept(house: House) -> set[str]:
    return {found.key for found in objects_of(house.owner, BUCKET)}


def delete(house: House, *elements: str) -> Answer:
    """Send a bulk delete whose keys are spelled in XML as they are given."""
    objects = "".join([f"<Object><Key>{element}</Key></Object>" for element in elements])
    body = f"<Delete>{objects}</Delete>".encode()
    headers = {"content-md5": content_md5(body)}
    endpoint = house.door.endpoint()
    return house.door.send(upload(endpoint, "POST", target_of(BUCKET), "delete=", body=body, headers=headers))


def long_decimal(character: str) -> str:
    return f"&#{ord(character):010d};"


def long_hexadecimal(character: str) -> str:
    return f"&#x{ord(character):09x};"


def short(character: str) -> str:
    return f"&#x{ord(character):X};"


@pytest.mark.parametrize("spell", (long_decimal, long_hexadecimal, short), ids=lambda spell: spell.__name__)
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_refused_key_is_not_deleted_beside_a_decoy_that_spells_it_out(
    house: House, victim: str, spell: type[str]
) -> None:
    """The metadata of a table, and a table nested in another, were deleted by callers that had been refused."""
    at = victim.rindex(VICTIMS[victim])
    spelled = f"{victim[:at]}{spell(victim[at])}{victim[at + 1 :]}"
    # Its key holds the reference itself, so another reader takes the two for one.
    decoy = spelled.replace("&", "&amp;")
    answer = delete(house, spelled, decoy, "wh/own/data/a")
    assert answer.status == 200, answer.body
    errors = [key.text for key in parse(answer.body).iterfind("{*}Error/{*}Key")]
    assert victim in errors
    assert kept(house) == {*VICTIMS}
    event = house.door.event(answer.headers["x-signproxy-event-id"])
    # The text of the decoy is the spelling of the victim.
    allowed = [key for key in (spelled, "wh/own/data/a") if key not in errors]
    assert len(allowed) == (1 if victim.startswith("wh/other") else 2)
    listed = "".join([f"{key}\n" for key in allowed])
    assert (event["key_count"], event["keys_sha256"]) == (len(allowed), hashlib.sha256(listed.encode()).hexdigest())


@pytest.mark.parametrize("edge", (" ", "\t", "&#x0000020;", "&#32;"), ids=repr)
def test_white_space_around_a_key_is_judged_with_and_without(house: House, edge: str) -> None:
    """boto3's clean-up of a prefix failed as a whole for one such key; a parser that trims it would delete metadata."""
    answer = delete(house, f"wh/own/metadata/v1.metadata.json{edge}", "wh/own/data/a", f"wh/own/data/none{edge}")
    assert answer.status == 200, answer.body
    assert kept(house) == {*VICTIMS}


def test_a_key_that_is_named_twice_is_deleted_as_the_store_does(house: House) -> None:
    """S3 takes it, and clients that join lists send it."""
    answer = delete(house, "wh/own/data/a", "wh/own/data/&#97;")
    assert answer.status == 200, answer.body
    assert kept(house) == {*VICTIMS}


@pytest.mark.parametrize(
    "element",
    (
        "<![CDATA[wh/own/data/a]]>",
        "wh/own/data/a<!-- -->",
        "wh/own/data/&#1;",
        "wh/own/data/&#x000000;",
        "wh/own/data/&nbsp;",
        "wh/own/data/a]]>",
    ),
)
def test_what_parsers_are_known_to_read_differently_is_refused_as_a_whole(house: House, element: str) -> None:
    """One of them is the store's."""
    before = kept(house)
    answer = delete(house, element, "wh/own/data/a")
    assert (answer.status, b"MalformedXML" in answer.body) == (400, True)
    assert kept(house) == before

"""Prove that no spelling of a copy's source reaches what the caller may not read, on stores that read it generously."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from tests.e2e.conftest import Shelf
from tests.e2e.forward.door import Door, run_door, storage_of, table_policy, volume_policy
from tests.e2e.forward.signer import sign, target_of, upload
from tests.e2e.stores import SEAWEEDFS, VERSITYGW, StoreKind
from tests.e2e.stores.contents import parse
from tests.e2e.stores.direct import Owner
from tests.e2e.stores.minio import MINIO
from tests.verifier import WireHttp

MINE, HIDDEN = "copy-open", "copy-hidden"
SECRET, PUBLIC = b"nobody but its owner may read this", b"mine"
OWN = "wh/own/data/file"
TARGET = "wh/own/data/copied"

STORES = (pytest.param(VERSITYGW, marks=pytest.mark.ci, id="versitygw"), SEAWEEDFS, MINIO)


class World(NamedTuple):
    """A door, its owner's hands on the store, and a place that the caller may not read."""

    door: Door
    owner: Owner
    bucket: str
    key: str

    def copied(self) -> bytes:
        """Return what the target holds now, and remove it."""
        found = self.owner.ask("GET", f"{MINE}/{TARGET}")
        self.owner.ask("DELETE", f"{MINE}/{TARGET}")
        return found.body if found.ok else b""


def _hidden_bucket(storage: dict[str, Any]) -> dict[str, Any]:
    """Let the caller do everything in one bucket, however keys are spelled."""
    return volume_policy(storage, [MINE])


def _hidden_table(storage: dict[str, Any]) -> dict[str, Any]:
    """Let the caller write one table, beside one that it knows nothing of."""
    return table_policy(storage, MINE, {"own": ["TABLE_READ_DATA", "TABLE_WRITE_DATA"], "closed": []})


PLACES = {
    "volume": (_hidden_bucket, HIDDEN, "secret"),
    "table": (_hidden_table, MINE, "wh/closed/data/secret"),
}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def world(kind: StoreKind, place: str, shelf: Shelf, tmp_path: Path) -> Iterator[World]:
    policy, bucket, key = PLACES[place]
    store = shelf.get(kind)
    with closing(Owner(store)) as owner:
        for each in (MINE, HIDDEN):
            if not owner.ask("HEAD", each).ok:
                owner.must("PUT", each)
        owner.must("PUT", f"{bucket}/{key}", body=SECRET)
        owner.must("PUT", f"{MINE}/{OWN}", body=PUBLIC)
        buckets = [MINE, HIDDEN] if place == "table" else [MINE]
        with run_door(tmp_path / "door", store, policy(storage_of(store, buckets))) as door:
            yield World(door, owner, bucket, key)


def spellings(bucket: str, key: str) -> Iterator[str]:
    """Yield what some reader may take for the hidden object."""
    plain = f"{bucket}/{key}"
    whole = quote(plain, safe="")
    head, _, last = key.rpartition("/")
    slashed = f"{head}/" if head else ""
    yield from (plain, f"/{plain}", f"//{plain}", f"/{bucket}//{key}", whole, f"%2F{whole}", f"/{whole}")
    yield from (f"{bucket}%2f{key}", f"{bucket}%252F{key}", f"{bucket}\\{key}", f"/{bucket}/./{key}")
    yield from (f"{bucket}/{slashed}%73{last[1:]}", f"{bucket}/{slashed}%2573{last[1:]}", f"{bucket}/{key}%00")
    yield from (f"{bucket.upper()}/{key}", f"{bucket}./{key}", f" {plain}", f"{plain}#", f"{plain}?", f"{plain};x")
    yield from (
        f"{plain}?versionId=null",
        f"{plain}?versionId=",
        f"{plain}%3FversionId=null",
        f"{plain}&versionId=null",
    )
    yield from (f"arn:aws:s3:::{plain}", f"arn:aws:s3:us-east-1:1:accesspoint/{bucket}/object/{key}")
    yield from (
        f"http://127.0.0.1/{plain}",
        f"/{bucket}/x/../{key}",
        f"{plain},/{MINE}/{OWN}",
        f"/{MINE}/{OWN},{plain}",
    )
    for up in ("..", "%2e%2e", "%2E.", ".%2e", "%252e%252e", "..;", "%c0%ae%c0%ae", "..%00"):
        for slash in ("/", "%2f", "%252f", "\\", "%5c"):
            # From one's own place, as many steps up as it is deep, and one more.
            for depth in (1, 4, 5):
                yield f"/{MINE}/wh/own/data{slash}" + f"{up}{slash}" * depth + plain
                yield f"/{MINE}/wh/own/data{slash}" + f"{up}{slash}" * depth + key
    yield f"/{MINE}/{OWN}?versionId=/../../{plain}"


@pytest.mark.parametrize("kind", STORES, ids=str)
def test_no_spelling_copies_what_is_hidden(world: World) -> None:
    """A caller that may write anywhere could read everything: a copy's source is one more thing that is asked for."""
    tried = [*spellings(world.bucket, world.key)]
    reached = [source for source in tried if _direct(world, source)]
    assert len(reached) >= 2, "what no store understands proves nothing"
    # The same request, for what is the caller's own, works.
    answer = world.door.send(_copy(world.door, f"/{MINE}/{OWN}"))
    assert (answer.status, world.copied()) == (200, PUBLIC), answer
    open_ = {}
    for source in tried:
        answer = world.door.send(_copy(world.door, source))
        if SECRET in answer.body or SECRET in world.copied():
            open_[source] = answer.status
    assert open_ == {}


@pytest.mark.parametrize("kind", STORES, ids=str)
def test_no_spelling_copies_a_part_of_what_is_hidden(world: World) -> None:
    """A part is read in another place of most stores' code."""
    begun = world.door.send(sign(world.door.endpoint(), "POST", target_of(f"{MINE}/{TARGET}"), "uploads=").wire(b""))
    assert begun.status == 200, begun
    upload_id = quote(parse(begun.body).findtext("UploadId") or "", safe="")
    query = f"partNumber=1&uploadId={upload_id}"
    # Each of these stores answers with the MD5 of what it read.
    theirs, ours = (hashlib.md5(content, usedforsecurity=False).hexdigest().encode() for content in (SECRET, PUBLIC))
    assert ours in world.door.send(_copy(world.door, f"/{MINE}/{OWN}", query)).body
    answers = {each: world.door.send(_copy(world.door, each, query)) for each in spellings(world.bucket, world.key)}
    assert {each: answer for each, answer in answers.items() if theirs in answer.body} == {}
    assert all(answer.status >= 400 or ours in answer.body for answer in answers.values())
    world.door.send(
        sign(world.door.endpoint(), "DELETE", target_of(f"{MINE}/{TARGET}"), f"uploadId={upload_id}").wire()
    )


def _copy(door: Door, source: str, query: str = "") -> WireHttp:
    headers = {"x-amz-copy-source": source}
    return upload(door.endpoint(), "PUT", target_of(f"{MINE}/{TARGET}"), query, body=b"", headers=headers)


def _direct(world: World, source: str) -> bool:
    """Return whether the store itself copies the hidden object for this spelling."""
    world.owner.ask("PUT", f"{MINE}/{TARGET}", headers={"x-amz-copy-source": source})
    return SECRET in world.copied()

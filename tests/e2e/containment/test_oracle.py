"""Show that the containment test would notice: each way out of a table, taken on purpose, is reported."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.containment.oracle import allowed_tables, leaks, smuggled_anywhere, snapshot
from tests.e2e.containment.world import FAR, LAKE, T1, T2, U1, U3, UNLISTED, VAULT, Table, World, labelled, lay_out
from tests.e2e.stores import VERSITYGW
from tests.e2e.stores.direct import Owner
from tests.e2e.wire import Answer

pytestmark = pytest.mark.ci

TAGS = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Owner, World]]:
    with VERSITYGW.run(tmp_path_factory.mktemp("oracle")) as store:
        owner = Owner(store)
        yield owner, lay_out(store, owner)
        owner.close()


def _overwrite_neighbour(owner: Owner, _world: World) -> None:
    owner.must("PUT", f"{LAKE}/{T1.root}0/data/part-0.parquet", body=b"other")


def _delete_other_table(owner: Owner, _world: World) -> None:
    owner.must("DELETE", f"{LAKE}/{T2.root}/data/upper.parquet")


def _write_outside(owner: Owner, _world: World) -> None:
    owner.must("PUT", f"{VAULT}/new", body=b"new")


def _write_metadata(owner: Owner, _world: World) -> None:
    owner.must("PUT", f"{LAKE}/{T1.root}/metadata/00001-aa.metadata.json", body=b"forged")


def _add_metadata(owner: Owner, _world: World) -> None:
    owner.must("PUT", f"{LAKE}/{T1.root}/metadata/00002-bb.metadata.json", body=b"forged")


def _tag(owner: Owner, _world: World) -> None:
    owner.must("PUT", f"{LAKE}/{T2.root}/data/UPPER.parquet", "tagging=", body=TAGS)


def _begin_upload(owner: Owner, _world: World) -> None:
    owner.must("POST", f"{UNLISTED}/upload", "uploads=")


def _add_part(owner: Owner, world: World) -> None:
    bucket, upload = world.foreign_uploads[0]
    owner.must("PUT", f"{bucket}/{upload.key}", f"partNumber=2&uploadId={upload.upload_id}", body=b"part")


def _abort_upload(owner: Owner, world: World) -> None:
    bucket, upload = world.foreign_uploads[1]
    owner.must("DELETE", f"{bucket}/{upload.key}", f"uploadId={upload.upload_id}")


def _create_bucket(owner: Owner, _world: World) -> None:
    owner.must("PUT", "another")


def _configure_bucket(owner: Owner, _world: World) -> None:
    digest = base64.b64encode(hashlib.md5(TAGS, usedforsecurity=False).digest()).decode()
    owner.must("PUT", LAKE, "tagging=", headers={"content-md5": digest}, body=TAGS)


@pytest.mark.parametrize(
    "escape",
    (
        _overwrite_neighbour,
        _delete_other_table,
        _write_outside,
        _write_metadata,
        _add_metadata,
        _tag,
        _begin_upload,
        _add_part,
        _abort_upload,
        _create_bucket,
        _configure_bucket,
    ),
)
def test_a_change_outside_is_noticed(laid_out: tuple[Owner, World], escape: Callable[[Owner, World], None]) -> None:
    """An oracle that misses a change would certify a hole."""
    owner, world = laid_out
    before = snapshot(owner, world)
    escape(owner, world)
    assert before.differences(snapshot(owner, world))


def test_a_change_inside_is_none_of_its_business(laid_out: tuple[Owner, World]) -> None:
    """Otherwise the first honest write would end the run."""
    owner, world = laid_out
    before = snapshot(owner, world)
    owner.must("PUT", f"{LAKE}/{T1.root}/data/new", body=labelled("mine"))
    assert before.differences(snapshot(owner, world)) == []
    assert smuggled_anywhere(owner) == []


@pytest.mark.parametrize(
    ("inside", "label"),
    (
        (T1, T2.name),
        (T1, "canary 5"),
        # Only `by-location` lets a copy cross tables.
        (T1, U3.name),
        (U1, FAR.name),
    ),
)
def test_content_that_was_copied_in_is_noticed(laid_out: tuple[Owner, World], inside: Table, label: str) -> None:
    """A copy leaves its source as it was; only the target tells."""
    owner, _world = laid_out
    key = f"{LAKE}/{inside.root}/data/copied"
    owner.must("PUT", key, body=labelled(label))
    assert smuggled_anywhere(owner)
    owner.must("DELETE", key)


def _listing(*keys: str) -> bytes:
    contents = "".join(f"<Contents><Key>{key}</Key></Contents>" for key in keys)
    return f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{contents}</ListBucketResult>'.encode()


STRICT_ROUTE = "/s3-sign/v1/strict/namespaces/db/tables/t1"


@pytest.mark.parametrize(
    ("route", "answer", "found"),
    (
        (STRICT_ROUTE, Answer(200, {}, labelled("t1")), False),
        (STRICT_ROUTE, Answer(200, {}, labelled("mine")), False),
        (STRICT_ROUTE, Answer(200, {}, labelled("t2")), True),
        # The caller's own, but not this route's.
        (STRICT_ROUTE, Answer(200, {}, labelled("odd")), True),
        ("/catalogs/strict/v1/aws/s3/sign", Answer(200, {}, labelled("odd")), False),
        ("/catalogs/strict/v1/aws/s3/sign", Answer(200, {}, labelled("u1")), True),
        ("/v1/open/namespaces/db/tables/u2/sign", Answer(200, {}, labelled("u3")), False),
        # HEAD has headers only.
        (STRICT_ROUTE, Answer(200, {"x-amz-meta-label": "<<canary 3>>"}, b""), True),
        (STRICT_ROUTE, Answer(200, {}, _listing("wh/db/t1/data/a")), False),
        (STRICT_ROUTE, Answer(200, {}, _listing("wh/db/t1/data/a", "wh/db/t10/data/a")), True),
        (STRICT_ROUTE, Answer(200, {}, b"<ListAllMyBucketsResult/>"), True),
    ),
)
def test_an_answer_that_shows_too_much_is_noticed(route: str, answer: Answer, found: bool) -> None:
    """Reading leaves no trace in the store; the answer itself is the only witness."""
    assert bool(leaks(answer, allowed_tables(route))) is found

"""Hold each store to what the end-to-end tests rely on: it refuses what a strict S3 server must refuse.

A store that stopped checking would turn every other test of this directory green for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.e2e.stores import RunningStore
from tests.e2e.stores.contents import buckets_of, objects_of, settings_of, uploads_of
from tests.e2e.stores.direct import Key, Owner, code_of, signed
from tests.e2e.wire import Wire
from tests.verifier import WireHttp

pytestmark = pytest.mark.ci

# versitygw answers 404 where it does not know the key, Swift 400 where nothing says that the request is S3's.
REFUSALS = frozenset({400, 401, 403, 404})

# Names that Iceberg writers really produce, and those on which encoders disagree.
KEYS = (
    "t/data/plain.parquet",
    "t/data/region=eu/day=2026-01-01/a.parquet",
    "t/data/city=a%2Fb/a.parquet",
    "t/data/plus+sign and space",
    "t/data/ünïcode-\U0001f9ca",
    "t/data/~!*'()@:,;$&",
)


@pytest.fixture
def wire(store: RunningStore) -> Iterator[Wire]:
    with Wire(store.port) as connection:
        yield connection


@pytest.mark.parametrize("key", KEYS)
def test_an_object_is_kept_under_its_own_name(owner: Owner, bucket: str, key: str) -> None:
    """A store that renamed keys would make containment a question of its spelling."""
    owner.must("PUT", f"{bucket}/{key}", body=b"content")
    assert owner.must("GET", f"{bucket}/{key}").body == b"content"
    assert [found.key for found in objects_of(owner, bucket)] == [key]
    owner.must("DELETE", f"{bucket}/{key}")
    assert objects_of(owner, bucket) == []


@pytest.mark.parametrize(
    "wrong",
    (
        {"secret": "another-secret"},
        {"access_key": "nobody"},
        {"skew": -1000.0},
        {"skew": 1000.0},
    ),
    ids=str,
)
def test_a_wrong_key_or_date_is_refused(
    store: RunningStore, owner: Owner, bucket: str, wire: Wire, wrong: dict[str, str]
) -> None:
    """Only a store that verifies can prove that a signature verifies, and that it ends."""
    owner.must("PUT", f"{bucket}/key", body=b"content")
    key = replace(Key.of(store), **wrong)  # type: ignore[arg-type]  # the rows hold fields of Key
    assert wire.send(signed(store, "GET", f"{bucket}/key", key=key)).status in REFUSALS


def test_a_wrong_region_is_refused_where_the_store_has_one(
    store: RunningStore, owner: Owner, bucket: str, wire: Wire
) -> None:
    """A signature with the client's region instead of the storage's must not go unnoticed on every store."""
    owner.must("PUT", f"{bucket}/key", body=b"content")
    answer = wire.send(signed(store, "GET", f"{bucket}/key", key=replace(Key.of(store), region="ap-south-2")))
    assert answer.ok is not store.traits.refuses_wrong_region


def _other_path(wire: WireHttp) -> WireHttp:
    return replace(wire, target=wire.target.replace("/key", "/other"))


def _other_query(wire: WireHttp) -> WireHttp:
    return replace(wire, target=f"{wire.target}?x-id=PutObject")


def _other_method(wire: WireHttp) -> WireHttp:
    return replace(wire, method="DELETE")


def _other_header(wire: WireHttp) -> WireHttp:
    headers = tuple((name, "changed" if name == "x-amz-meta-a" else value) for name, value in wire.headers)
    return replace(wire, headers=headers)


@pytest.mark.parametrize("alter", (_other_path, _other_query, _other_method, _other_header))
def test_what_was_signed_cannot_be_altered(
    store: RunningStore, owner: Owner, bucket: str, wire: Wire, alter: Callable[[WireHttp], WireHttp]
) -> None:
    """Containment rests on the store doing what was signed, and nothing else."""
    owner.must("PUT", f"{bucket}/key", body=b"before")
    owner.must("PUT", f"{bucket}/other", body=b"before")
    honest = signed(store, "PUT", f"{bucket}/key", headers={"x-amz-meta-a": "1"}, body=b"after")
    assert wire.send(alter(honest)).status in REFUSALS
    assert owner.must("GET", f"{bucket}/key").body == b"before"
    assert owner.must("GET", f"{bucket}/other").body == b"before"


@pytest.mark.parametrize(
    "header",
    (
        ("x-amz-meta-note", "laundered"),
        ("x-amz-acl", "public-read"),
        ("x-amz-copy-source", "/{bucket}/secret"),
        ("x-amz-tagging", "a=b"),
    ),
    ids=lambda header: str(header[0]),
)
def test_an_unsigned_amz_header_is_refused(
    store: RunningStore, owner: Owner, bucket: str, wire: Wire, header: tuple[str, str]
) -> None:
    """A store that acts on headers it did not find signed lets a client turn a signed PUT into a copy."""
    owner.must("PUT", f"{bucket}/secret", body=b"secret")
    honest = signed(store, "PUT", f"{bucket}/key", body=b"own")
    added = (header[0], header[1].format(bucket=bucket))
    answer = wire.send(replace(honest, headers=(*honest.headers, added)))
    # Swift has no tags and says so before it looks at the signature's headers.
    assert answer.status in {403, 501}, code_of(answer)
    assert [found.key for found in objects_of(owner, bucket)] == ["secret"]


def test_a_changed_body_is_refused_where_the_store_hashes_it(
    store: RunningStore, owner: Owner, bucket: str, wire: Wire
) -> None:
    """A bulk delete is bound to its checked keys by the hash of its body alone."""
    honest = signed(store, "PUT", f"{bucket}/key", body=b"checked")
    answer = wire.send(replace(honest, body=b"swapped"))
    assert answer.ok is not store.traits.refuses_wrong_payload_hash
    assert bool(objects_of(owner, bucket)) is not store.traits.refuses_wrong_payload_hash


def test_an_anonymous_request_is_refused(store: RunningStore, owner: Owner, bucket: str, wire: Wire) -> None:
    """A public bucket would let every unsigned request of a broken client succeed."""
    owner.must("PUT", f"{bucket}/key", body=b"content")
    answer = wire.send(WireHttp("GET", f"/{bucket}/key", (("Host", store.authority),)))
    assert answer.status in REFUSALS
    assert answer.body != b"content"


def test_the_contents_of_a_bucket_can_be_read_back(owner: Owner, bucket: str) -> None:
    """Containment compares two such readings; a blind one would see no change in anything."""
    owner.must("PUT", f"{bucket}/a/one", body=b"1")
    owner.must("PUT", f"{bucket}/a/two", body=b"22")
    started = owner.must("POST", f"{bucket}/a/three", "uploads=").body.decode()
    upload_id = started.partition("<UploadId>")[2].partition("</UploadId>")[0]
    part = owner.must("PUT", f"{bucket}/a/three", f"partNumber=1&uploadId={upload_id}", body=b"333")
    assert [(found.key, found.size) for found in objects_of(owner, bucket)] == [("a/one", 1), ("a/two", 2)]
    (upload,) = uploads_of(owner, bucket)
    assert (upload.key, upload.upload_id) == ("a/three", upload_id)
    assert upload.parts == ((1, part.headers["etag"].strip('"')),)
    assert bucket in buckets_of(owner)
    assert settings_of(owner, bucket) == settings_of(owner, bucket)


@pytest.mark.parametrize(
    "header",
    (
        ("X-Copy-From", "/{bucket}/secret"),
        ("X-Object-Manifest", "{bucket}/sec"),
        ("X-Symlink-Target", "{bucket}/secret"),
        ("x-goog-copy-source", "{bucket}/secret"),
        ("X-HTTP-Method-Override", "DELETE"),
    ),
    ids=lambda header: str(header[0]),
)
def test_a_header_of_another_protocol_is_without_effect(
    store: RunningStore, owner: Owner, bucket: str, wire: Wire, header: tuple[str, str]
) -> None:
    """Stores that speak more than S3 must not read, under a signature of S3, what only the other protocol knows."""
    owner.must("PUT", f"{bucket}/secret", body=b"secret")
    for body in (b"own", b""):
        honest = signed(store, "PUT", f"{bucket}/key", body=body)
        wire.send(replace(honest, headers=(*honest.headers, (header[0], header[1].format(bucket=bucket)))))
        assert owner.must("GET", f"{bucket}/key").body == body
    assert owner.must("GET", f"{bucket}/secret").body == b"secret"


def _moved(wire: WireHttp, target: str, *headers: tuple[str, str]) -> WireHttp:
    return replace(wire, target=target, headers=(*wire.headers, *headers))


def test_a_signature_cannot_be_moved_by_forwarded_headers(
    store: RunningStore, owner: Owner, bucket: str, wire: Wire
) -> None:
    """A store that believes these headers of any client opens every object to the holder of one signature."""
    owner.must("PUT", f"{bucket}/vault/secret", body=b"secret")
    prefix = ("X-Forwarded-Prefix", "/lake/wh/t1")
    honest = signed(store, "GET", f"lake/wh/t1/{bucket}/vault/secret")
    answer = wire.send(_moved(honest, f"/{bucket}/vault/secret", prefix))
    assert (answer.body == b"secret") is store.traits.verifies_as_forwarded

    # What such a store needs: the headers signed, and empty.
    guards = {"x-forwarded-prefix": "", "x-forwarded-host": ""}
    guarded = signed(store, "GET", f"lake/wh/t1/{bucket}/vault/secret", headers=guards)
    assert wire.send(_moved(guarded, f"/{bucket}/vault/secret", prefix)).status == 403
    bare = replace(guarded, headers=tuple(pair for pair in guarded.headers if pair[0] not in guards))
    assert wire.send(_moved(bare, f"/{bucket}/vault/secret", prefix)).status == 403
    assert wire.send(signed(store, "GET", f"{bucket}/vault/secret", headers=guards)).body == b"secret"

"""Keys of a table, before a store that enforces session policies: they open that table, and nothing beside it.

The role of the sessions may do everything here: whatever is refused, the session policy refuses.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import json
import time
import zlib
from collections.abc import Iterator
from urllib.parse import quote

import jwt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.policy.location import Location
from signproxy.policy.table import MetadataLevel
from signproxy.vending import mints
from signproxy.vending import session_policy as writer
from signproxy.vending.scope import CatalogPlaces
from signproxy.vending.session_policy import unsafe
from signproxy.vending.vended import VendScope
from tests.e2e.stores.direct import Owner, code_of
from tests.e2e.vending.holder import BUCKET, Holder, vendor_of
from tests.e2e.vending.store import ROLE, SessionStore, run_minio, run_seaweedfs
from tests.e2e.wire import Answer, Wire
from tests.policy.world import World
from tests.vending.scopes import AWS_LANGUAGE, PLAIN, READ_WRITE, scope
from tests.verifier import WireHttp

TABLES = ("t1", "t10", "t", "t2", "tä", "t 1", "t*", "t?", "t$", "${aws:username}", "${*}", "*")
"""Names beside each other in one warehouse; the last six are patterns to a store that knows no escapes."""
PATTERNS = TABLES[-6:]
FILES = ("data/a.parquet", "metadata/snap-1.avro", "metadata/v1.metadata.json", "metadata/version-hint.text")
DATA, SNAPSHOT, METADATA, HINT = FILES


DRAWN = 300
"""Pairs of names that are drawn."""


def at_location(name: str) -> Location:
    return Location(BUCKET, f"wh/{name}")


def at(table: str, file: str) -> str:
    return f"{BUCKET}/wh/{table}/{file}"


@pytest.fixture(
    scope="module",
    params=(pytest.param(run_seaweedfs, id="seaweedfs", marks=pytest.mark.ci), pytest.param(run_minio, id="minio")),
)
def session_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionStore]:
    with request.param(tmp_path_factory.mktemp("sessions")) as running:
        owner = Owner(running.store)
        owner.must("PUT", BUCKET)
        owner.close()
        yield running


@pytest.fixture
def owner(session_store: SessionStore) -> Iterator[Owner]:
    """The owner, before tables of which every file is as it was."""
    one = Owner(session_store.store)
    for table in TABLES:
        for file in FILES:
            one.must("PUT", at(table, file), body=f"{table} {file}".encode())
    yield one
    one.close()


async def keys_of(session_store: SessionStore, asked: VendScope) -> Holder:
    vendor = vendor_of(session_store)
    try:
        keys = await vendor.vend(asked)
    finally:
        await vendor.aclose()
    return Holder(session_store.store, keys.access_key_id, keys.secret_access_key, keys.session_token)


@pytest.fixture
async def reader(session_store: SessionStore, owner: Owner) -> Holder:
    return await keys_of(session_store, scope(f"{BUCKET}/wh/t1"))


@pytest.fixture
async def writer_of_t1(session_store: SessionStore, owner: Owner) -> Holder:
    return await keys_of(session_store, scope(f"{BUCKET}/wh/t1", access=READ_WRITE))


def unharmed(owner: Owner, *tables: str) -> bool:
    """Whether every file of these tables is as it was."""
    return all(
        owner.must("GET", at(table, file)).body == f"{table} {file}".encode() for table in tables for file in FILES
    )


def delete_all(holder: Holder, *keys: str) -> Answer:
    """Ask for a bulk delete."""
    body = f"<Delete>{''.join(f'<Object><Key>{key}</Key></Object>' for key in keys)}</Delete>".encode()
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    return holder.ask("POST", BUCKET, "delete=", body=body, headers={"content-md5": digest})


def listed(prefix: str) -> str:
    return f"list-type=2&prefix={quote(prefix, safe='')}"


def test_a_reader_reads_its_table(reader: Holder, session_store: SessionStore) -> None:
    """Keys that open nothing would pass every other test here."""
    assert reader.ask("GET", at("t1", DATA)).body == f"t1 {DATA}".encode()
    assert reader.status("GET", at("t1", SNAPSHOT)) == 200
    assert reader.status("HEAD", at("t1", DATA)) == 200
    answer = reader.ask("GET", BUCKET, listed("wh/t1/"))
    if not session_store.language.judges_prefix:
        assert code_of(answer) == "AccessDenied"
        return
    assert answer.status == 200
    assert answer.body.count(b"<Key>") == len(FILES)


def test_a_reader_changes_nothing(reader: Holder, owner: Owner) -> None:
    """Read is what the caller was granted."""
    for method, query in (("PUT", ""), ("DELETE", ""), ("POST", "uploads=")):
        assert reader.code(method, at("t1", DATA), query) == "AccessDenied", (method, query)
    for query in ("tagging=", "acl="):
        assert not reader.ask("PUT", at("t1", DATA), query).ok
    assert b"<Deleted>" not in delete_all(reader, f"wh/t1/{DATA}").body
    copied = {"x-amz-copy-source": f"/{at('t1', DATA)}"}
    assert reader.code("PUT", at("t1", "data/copy"), headers=copied) == "AccessDenied"
    assert unharmed(owner, *TABLES)


def test_a_writer_writes_its_table(writer_of_t1: Holder) -> None:
    """Uploads in parts, their end and their abort, and copies within the table, are what engines do."""
    key = at("t1", "data/new.parquet")
    assert writer_of_t1.status("PUT", key, body=b"new") == 200
    assert writer_of_t1.status("PUT", at("t1", "data/copy"), headers={"x-amz-copy-source": f"/{key}"}) == 200
    begun = writer_of_t1.ask("POST", key, "uploads=")
    upload = begun.body.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()
    assert writer_of_t1.status("PUT", key, f"partNumber=1&uploadId={upload}", body=b"part") == 200
    assert writer_of_t1.status("GET", key, f"uploadId={upload}") == 200
    assert writer_of_t1.status("DELETE", key, f"uploadId={upload}") == 204
    assert writer_of_t1.status("DELETE", key) == 204
    assert writer_of_t1.status("DELETE", at("t1", "data/copy")) == 204


@pytest.mark.parametrize("neighbour", [name for name in TABLES if name != "t1"])
def test_no_byte_of_a_neighbour_is_touched(writer_of_t1: Holder, owner: Owner, neighbour: str) -> None:
    """Whatever it is called; `t10` begins with the very name."""
    for file in FILES:
        for method, query in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "uploads="), ("GET", "tagging=")):
            assert writer_of_t1.code(method, at(neighbour, file), query) == "AccessDenied", (method, file, query)
    for prefix in (f"wh/{neighbour}/", f"wh/{neighbour}/data/", f"wh/{neighbour}"):
        assert writer_of_t1.code("GET", BUCKET, listed(prefix)) == "AccessDenied"
    copied = {"x-amz-copy-source": quote(f"/{at(neighbour, DATA)}")}
    assert writer_of_t1.code("PUT", at("t1", "data/stolen"), headers=copied) == "AccessDenied"
    begun = writer_of_t1.ask("POST", at("t1", "data/stolen"), "uploads=")
    upload = begun.body.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()
    part = f"partNumber=1&uploadId={upload}"
    assert writer_of_t1.code("PUT", at("t1", "data/stolen"), part, headers=copied) == "AccessDenied"
    assert unharmed(owner, neighbour)


OWN = quote("wh/t1/", safe="")
TRICKS = (
    (f"list-type=2&prefix=&prefix={OWN}", ""),
    (f"list-type=2&prefix=wh%2F&prefix={OWN}", ""),
    (f"list-type=2&prefix={OWN}&prefix=", ""),
    (f"prefix=&prefix={OWN}", ""),
    (f"Prefix={OWN}&list-type=2", ""),
    ("list-type=2", "prefix"),
    ("list-type=2&prefix=wh%2F", "prefix"),
    *((f"list-type=2&prefix={quote(f'wh/t1/{rest}', safe='')}", "") for rest in ("../", "../t10/", "data/../../t10/")),
    *((f"{name}=..%2Ft10%2F&prefix={OWN}", "") for name in ("marker", "continuation-token")),
    (f"list-type=2&prefix={OWN}&start-after=..%2Ft10%2F", ""),
)
"""What may make a store judge another prefix than it lists, and a header that holds the table's own."""


@pytest.mark.parametrize(("query", "header"), TRICKS)
def test_no_list_tells_of_a_neighbour(writer_of_t1: Holder, query: str, header: str) -> None:
    """Names of files name partitions, and how much there is of them."""
    body = writer_of_t1.ask("GET", BUCKET, query, headers={header: "wh/t1/"} if header else {}).body
    keys = [key.partition(b"<")[0] for key in body.split(b"<Key>")[1:]]
    assert all(key.startswith(b"wh/t1/") and b".." not in key for key in keys), keys


def test_a_bulk_delete_spares_what_is_not_the_tables_own(writer_of_t1: Holder, owner: Owner) -> None:
    """One request names keys of both, and of the metadata."""
    answer = delete_all(writer_of_t1, *[f"wh/{table}/{file}" for table in ("t1", "t10") for file in FILES])
    assert answer.body.count(b"<Deleted>") == 2
    assert owner.ask("GET", at("t1", DATA)).status == 404
    assert owner.must("GET", at("t1", METADATA)).body == f"t1 {METADATA}".encode()
    assert unharmed(owner, "t10")


def test_the_metadata_stands(writer_of_t1: Holder, owner: Owner) -> None:
    """It says where the table's files are: with it, a writer could make another table's files its own."""
    for file in (METADATA, HINT, "metadata/v2.metadata.json", "v3.metadata.json.gz", "version-hint.text"):
        for method, query in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "uploads=")):
            assert writer_of_t1.code(method, at("t1", file), query) == "AccessDenied", (method, file, query)
        copied = {"x-amz-copy-source": f"/{at('t1', DATA)}"}
        assert writer_of_t1.code("PUT", at("t1", file), headers=copied) == "AccessDenied"
    read = {"x-amz-copy-source": f"/{at('t1', METADATA)}"}
    assert writer_of_t1.code("PUT", at("t1", "data/x"), headers=read) == "AccessDenied"
    for folder in ("metadata", "metadata/", ""):
        assert writer_of_t1.code("DELETE", at("t1", folder)) == "AccessDenied"
    assert unharmed(owner, "t1")


async def test_sealed_metadata_is_closed_whole(session_store: SessionStore, owner: Owner) -> None:
    """Manifests name every file of the table."""
    sealed = scope(f"{BUCKET}/wh/t1", access=READ_WRITE, metadata=MetadataLevel.SEALED)
    holder = await keys_of(session_store, sealed)
    assert holder.status("GET", at("t1", DATA)) == 200
    for file in (SNAPSHOT, METADATA, "metadata/new", "/metadata/snap-1.avro"):
        for method in ("GET", "PUT", "DELETE"):
            assert holder.status(method, at("t1", file)) != 200, (method, file)
    assert holder.code("GET", BUCKET, listed("wh/t1/")) == "AccessDenied"
    assert unharmed(owner, "t1")


async def test_a_caller_with_full_metadata_maintains_it(session_store: SessionStore, owner: Owner) -> None:
    """Catalogs and maintenance jobs write it."""
    opened = scope(f"{BUCKET}/wh/t1", access=READ_WRITE, metadata=MetadataLevel.OPEN)
    holder = await keys_of(session_store, opened)
    assert holder.status("PUT", at("t1", "metadata/v2.metadata.json"), body=b"{}") == 200
    assert holder.status("DELETE", at("t1", "metadata/v2.metadata.json")) == 204
    assert unharmed(owner, *TABLES)


def test_the_bucket_is_out_of_reach(reader: Holder, writer_of_t1: Holder) -> None:
    """What changes or tells of the bucket concerns every table in it."""
    for holder in (reader, writer_of_t1):
        for query in ("", listed(""), listed("wh/"), listed("wh/t1"), "versions=", "uploads=", "policy=", "acl="):
            assert holder.code("GET", BUCKET, query) == "AccessDenied", query
        for method, query in (("PUT", "policy="), ("PUT", "acl="), ("DELETE", ""), ("PUT", "versioning=")):
            assert holder.code(method, BUCKET, query) == "AccessDenied", (method, query)
        assert holder.code("PUT", "another-bucket") == "AccessDenied"
        assert b"<Bucket>" not in holder.ask("GET", "").body
        for path in (f"{BUCKET}/wh/t1/../t10/{DATA}", f"{BUCKET}/wh/t1/%2e%2e/t10/{DATA}"):
            assert not holder.ask("GET", path).ok


async def test_vended_keys_ask_for_no_further_keys(reader: Holder, session_store: SessionStore) -> None:
    """A session of the same role without a policy would be good for the whole store."""
    body = f"Action=AssumeRole&Version=2011-06-15&RoleArn={quote(ROLE)}&RoleSessionName=abc".encode()
    assert b"<SecretAccessKey>" not in _of_the_service(reader, body)
    # Proof that this asks as it should: the owner gets one.
    store = session_store.store
    assert b"<SecretAccessKey>" in _of_the_service(Holder(store, store.access_key, store.secret, ""), body)


def _of_the_service(holder: Holder, body: bytes) -> bytes:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    headers = {"host": holder.store.authority, "content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    request = AWSRequest("POST", f"{holder.store.origin}/", headers=headers, data=body)
    keys = Credentials(holder.access_key_id, holder.secret_access_key, holder.session_token or None)
    SigV4Auth(keys, "sts", holder.store.region).add_auth(request)
    with Wire(holder.store.port) as wire:
        return wire.send(WireHttp("POST", "/", tuple(request.headers.items()), body)).body


def test_what_a_session_tells_of_the_owner_s_key(reader: Holder, owner: Owner, session_store: SessionStore) -> None:
    """MinIO names it in the token, and takes an upload under a key without its secret; docs/sessions.md warns of it."""
    store = session_store.store
    parent = jwt.decode(reader.session_token, options={"verify_signature": False}).get("parent", "")
    assert (parent == store.access_key) is (store.name == "minio")
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope_of_key = quote(f"{store.access_key}/{date[:8]}/{store.region}/s3/aws4_request", safe="")
    query = (
        f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={scope_of_key}&X-Amz-Date={date}&X-Amz-Expires=900"
        f"&X-Amz-SignedHeaders=host&X-Amz-Signature={'0' * 64}"
    )
    checksum = base64.b64encode(zlib.crc32(b"evil").to_bytes(4, "big")).decode()
    body = f"4\r\nevil\r\n0\r\nx-amz-checksum-crc32:{checksum}\r\n\r\n".encode()
    headers = {
        "host": store.authority,
        "x-amz-date": date,
        "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "x-amz-decoded-content-length": "4",
        "x-amz-trailer": "x-amz-checksum-crc32",
        "content-encoding": "aws-chunked",
        "content-length": str(len(body)),
    }
    with Wire(store.port) as wire:
        answer = wire.send(WireHttp("PUT", f"/{at('t10', DATA)}?{query}", tuple(headers.items()), body))
    assert answer.ok is (store.name == "minio")
    assert unharmed(owner, "t10") is (store.name != "minio")


def test_a_session_that_has_ended_is_refused(reader: Holder, session_store: SessionStore) -> None:
    """A stolen key pair is good until then, and no longer: the same session, by the store's own key, two hours ago."""
    claims = jwt.decode(reader.session_token, options={"verify_signature": False})
    assert claims["exp"] - time.time() <= 900 + 5
    if not session_store.token_key:
        # This store keeps the end of a session itself, and no test waits for it.
        return
    for seconds, served in ((0, True), (-7200, False)):
        shifted: dict[str, object] = {name: claims[name] + seconds for name in ("exp", "nbf", "iat") if name in claims}
        token = jwt.encode(claims | shifted, session_store.token_key, "HS256")
        holder = Holder(reader.store, reader.access_key_id, reader.secret_access_key, token)
        assert holder.ask("GET", at("t1", DATA)).ok is served


def test_a_session_without_its_token_is_nothing(reader: Holder) -> None:
    """Nor with another's."""
    for token in ("", "x", reader.session_token[:-2]):
        holder = Holder(reader.store, reader.access_key_id, reader.secret_access_key, token)
        assert not holder.ask("GET", at("t1", DATA)).ok


@pytest.mark.parametrize("name", [name for name in TABLES if name not in PATTERNS])
async def test_keys_of_every_table_open_that_table_alone(session_store: SessionStore, owner: Owner, name: str) -> None:
    """From each table's side: none of the others is reached."""
    holder = await keys_of(session_store, scope(f"{BUCKET}/wh/{name}"))
    assert [each for each in TABLES if holder.ask("GET", at(each, DATA)).ok] == [name]
    listable = [name] if session_store.language.judges_prefix else []
    assert [each for each in TABLES if holder.ask("GET", BUCKET, listed(f"wh/{each}/")).ok] == listable


@pytest.mark.parametrize("name", PATTERNS)
async def test_a_table_whose_name_is_a_pattern_gets_no_keys_here(
    session_store: SessionStore, owner: Owner, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This store knows no escapes: unescaped, the name opens the neighbours, which this rig then sees."""
    asked = scope(f"{BUCKET}/wh/{name}")
    with pytest.raises(Refused) as caught:
        await keys_of(session_store, asked)
    assert caught.value.reason is Reason.SCOPE_NOT_VENDABLE
    monkeypatch.setattr(writer, "unsafe", lambda *_: "")
    monkeypatch.setattr(writer, "_escaped", lambda text: text)
    if name != "t$":
        # The proof that every policy passes finds out as well; a dollar by itself is what it looks like.
        with pytest.raises(Refused) as caught:
            await keys_of(session_store, asked)
        assert caught.value.reason is Reason.SESSION_UNPROVED
    for proof in ("excess", "closed"):
        monkeypatch.setattr(mints, proof, lambda *_, **__: "")
    holder = await keys_of(session_store, asked)
    reached = [each for each in TABLES if holder.ask("GET", at(each, DATA)).ok]
    assert (reached != [name]) is (name in ("t*", "t?", "*", "${aws:username}", "${*}")), reached


async def test_a_neighbour_by_case_alone_is_another_table(session_store: SessionStore, owner: Owner) -> None:
    """To SeaweedFS a policy for `t1` is one for `T1`, although the two are two objects: there it gets no keys."""
    owner.must("PUT", at("T1", DATA), body=b"another table")
    assert owner.must("GET", at("t1", DATA)).body != b"another table"
    world = World()
    table = world.table("small", "wh/t1/")
    world.table("capital", "wh/T1/")
    asked = replace(scope(f"{BUCKET}/wh/t1"), others=CatalogPlaces(world.catalog, table))
    if session_store.language.tells_case:
        assert (await keys_of(session_store, asked)).code("GET", at("T1", DATA)) == "AccessDenied"
        return
    with pytest.raises(Refused) as caught:
        await keys_of(session_store, asked)
    assert caught.value.reason is Reason.SCOPE_NOT_VENDABLE
    unaware = await keys_of(session_store, scope(f"{BUCKET}/wh/t1"))
    assert unaware.ask("GET", at("T1", DATA)).body == b"another table"


NAME = st.text("tT1{}%äßſ -_.0", min_size=1, max_size=5) | st.sampled_from(
    [name for name in TABLES if name not in PATTERNS]
)
OTHER = st.text("tT1*?${}%äßſ -_.0", min_size=1, max_size=5) | st.sampled_from(TABLES)


def test_keys_of_drawn_tables_open_no_other_one(session_store: SessionStore) -> None:
    """Names that no list has thought of: the store itself says what the keys of the one do to the other."""
    owner = Owner(session_store.store)
    tried = [0]

    @settings(max_examples=DRAWN, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(NAME, OTHER)
    def alone(name: str, other: str) -> None:
        world = World()
        table, neighbour = world.table("one", f"wh/{name}/"), world.table("other", f"wh/{other}/")
        if name == other or unsafe(at_location(name), PLAIN) or unsafe(at_location(other), AWS_LANGUAGE):
            return
        asked = scope(f"{BUCKET}/wh/{name}", access=READ_WRITE)
        asked = replace(asked, others=CatalogPlaces(world.catalog, table))
        if name.startswith("..") or (name.casefold() == other.casefold() and not session_store.language.tells_case):
            with pytest.raises(Refused):
                asyncio.run(keys_of(session_store, asked))
            return
        holder = asyncio.run(keys_of(session_store, asked))
        tried[0] += 1
        for each in (name, other):
            owner.must("PUT", at(each, DATA), body=each.encode())
        assert holder.ask("GET", at(name, DATA)).body == name.encode()
        for method in ("GET", "PUT", "DELETE"):
            assert not holder.ask(method, f"{BUCKET}/{neighbour.location}{DATA}").ok, (name, method, other)
        assert not holder.ask("GET", BUCKET, listed(neighbour.location)).ok
        assert owner.must("GET", at(other, DATA)).body == other.encode()

    alone()
    owner.close()
    assert tried[0] > DRAWN // 3


async def test_what_the_service_refuses_is_told_as_such(session_store: SessionStore) -> None:
    """Keys that may ask for no session are no fault of the caller's, and nothing else is handed out."""
    stranger = dataclasses.replace(session_store.store, secret="another")
    vendor = vendor_of(dataclasses.replace(session_store, store=stranger))
    with pytest.raises(Refused) as caught:
        await vendor.vend(scope(f"{BUCKET}/wh/t1"))
    assert caught.value.reason is Reason.SESSIONS_REFUSED
    await vendor.aclose()


def test_the_longest_policy_that_is_asked_for_is_taken(session_store: SessionStore) -> None:
    """The limit is the store's as well: 2,048 characters, and not one more."""
    assert writer.MAX_CHARACTERS == 2048
    store = session_store.store
    holder = Holder(store, store.access_key, store.secret, "")
    for length, taken in ((2048, True), (2049, False)):
        statement = {"Effect": "Deny", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::x"]}
        text = json.dumps({"Version": "2012-10-17", "Statement": [statement]}, separators=(",", ":"))
        padded = text.replace(":::x", f":::{'x' * (length - len(text) + 1)}")
        body = f"Action=AssumeRole&Version=2011-06-15&RoleArn={quote(ROLE)}&RoleSessionName=abc&Policy={quote(padded)}"
        assert (b"<SecretAccessKey>" in _of_the_service(holder, body.encode())) is taken, length

"""Tell callers of the S3 listener what is wrong with how they show who they are, or what they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import pytest

from tests.e2e.conftest import Shelf
from tests.e2e.forward.door import Door, run_door, storage_of, table_policy
from tests.e2e.forward.session import Session
from tests.e2e.forward.signer import Endpoint, content_md5, sign, target_of, upload
from tests.e2e.server import CALLER
from tests.e2e.stores import VERSITYGW, RunningStore
from tests.e2e.stores.direct import Owner, code_of
from tests.e2e.wire import Answer
from tests.verifier import WireHttp

pytestmark = pytest.mark.ci

BUCKET = "default-policy"
SECRET = b"secret"


class House(NamedTuple):
    """The default policy on a store: a table to write, one to read, one to know nothing of."""

    store: RunningStore
    door: Door
    endpoint: Endpoint

    def event_of(self, answer: Answer) -> dict[str, object]:
        """Return the audit event that an answer names."""
        return self.door.event(answer.headers["x-signproxy-event-id"])


@pytest.fixture(scope="module")
def house(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    store = shelf.get(VERSITYGW)
    with closing(Owner(store)) as owner:
        owner.must("PUT", BUCKET)
        for table in ("own", "read", "closed"):
            owner.must("PUT", f"{BUCKET}/wh/{table}/data/file", body=SECRET)
        owner.must("PUT", f"{BUCKET}/wh/own/metadata/v1.metadata.json", body=SECRET)
        owner.must("PUT", f"{BUCKET}/elsewhere/file", body=SECRET)
    held = {"own": ["TABLE_WRITE_DATA"], "read": ["TABLE_READ_DATA"], "closed": []}
    policy = table_policy(storage_of(store, [BUCKET], opt_ins={}), BUCKET, held)
    with run_door(tmp_path_factory.mktemp("house"), store, policy) as door:
        yield House(store, door, door.endpoint())


def test_an_unsigned_request_is_told_of_its_credential_provider(house: House) -> None:
    """A client without keys sends its requests bare, and says nothing of it itself."""
    wire = WireHttp("GET", target_of(f"{BUCKET}/wh/own/data/file"), (("Host", house.endpoint.authority),))
    answer = house.door.send(wire)
    assert (answer.status, code_of(answer)) == (403, "AccessDenied")
    assert b"credential provider failed or is not configured" in answer.body
    assert SECRET not in answer.body


def test_an_event_says_whose_request_it_was_and_what_the_store_said(house: House) -> None:
    """Who looks for a request in the store's log has to know how the store calls it, and how much went through."""
    answer = house.door.send(sign(house.endpoint, "GET", target_of(f"{BUCKET}/wh/own/data/file")).wire())
    assert (answer.status, answer.body) == (200, SECRET)
    event = house.event_of(answer)
    assert (event["kind"], event["decision"], event["principal"]) == ("forward", "allow", CALLER)
    assert (event["table"], event["s3_op"]) == ("own", "GetObject")
    assert (event["upstream_status"], event["bytes_out"]) == (200, len(SECRET))
    assert event["upstream_request_id"] == answer.headers["x-amz-request-id"]


class Refusal(NamedTuple):
    """A request that the default policy refuses, and why."""

    name: str
    reason: str
    code: str
    wire: Callable[[Endpoint], WireHttp]

    def __str__(self) -> str:
        return self.name


def _asked(method: str, key: str = "", query: str = "", **headers: str) -> Callable[[Endpoint], WireHttp]:
    def wire(endpoint: Endpoint) -> WireHttp:
        target = target_of(f"{BUCKET}/{key}" if key else BUCKET)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if method in ("PUT", "POST"):
            return upload(
                endpoint, method, target, query, body=b"" if "source" in str(given) else b"new", headers=given
            )
        return sign(endpoint, method, target, query, headers=given).wire()

    return wire


_OWN, _READ, _CLOSED, _BESIDE = "wh/own/data/file", "wh/read/data/file", "wh/closed/data/file", "elsewhere/file"
_DENIED = "AccessDenied"

REFUSALS = (
    Refusal("GetObject of a closed table", "no_remote_sign", _DENIED, _asked("GET", _CLOSED)),
    Refusal("GetObject beside all tables", "location_unowned", _DENIED, _asked("GET", _BESIDE)),
    Refusal("PutObject of a table that is read", "no_write_data", _DENIED, _asked("PUT", _READ)),
    Refusal("DeleteObject of a table that is read", "no_write_data", _DENIED, _asked("DELETE", _READ)),
    Refusal("GetObject of metadata", "metadata_protected", _DENIED, _asked("GET", "wh/own/metadata/v1.metadata.json")),
    Refusal("ListObjectsV2 without a prefix", "list_prefix", _DENIED, _asked("GET", "", "list-type=2")),
    Refusal(
        "ListObjectsV2 of a closed table",
        "no_remote_sign",
        _DENIED,
        _asked("GET", "", "list-type=2&prefix=wh%2Fclosed%2F"),
    ),
    Refusal("ListObjects above the tables", "location_unowned", _DENIED, _asked("GET", "", "prefix=wh%2F")),
    Refusal(
        "CopyObject from a closed table",
        "copy_source_outside",
        _DENIED,
        _asked("PUT", _OWN, x_amz_copy_source=f"/{BUCKET}/{_CLOSED}"),
    ),
    Refusal("PutBucketPolicy", "operation_refused", _DENIED, _asked("PUT", "", "policy=")),
    Refusal("GetBucketAcl", "operation_refused", _DENIED, _asked("GET", "", "acl=")),
    Refusal("DeleteBucket", "operation_refused", _DENIED, _asked("DELETE")),
    Refusal("CreateBucket", "operation_refused", _DENIED, _asked("PUT")),
    Refusal("ListObjectVersions", "operation_refused", _DENIED, _asked("GET", "", "prefix=wh%2Fown%2F&versions=")),
    Refusal("GetObjectAcl", "operation_refused", _DENIED, _asked("GET", _OWN, "acl=")),
    Refusal("PutObjectTagging", "operation_refused", _DENIED, _asked("PUT", _OWN, "tagging=")),
    Refusal("GetObject of a version", "operation_unknown", _DENIED, _asked("GET", _OWN, "versionId=null")),
    Refusal("PutObject with an ACL", "header_value", _DENIED, _asked("PUT", _OWN, x_amz_acl="public-read")),
    Refusal("an unknown parameter", "operation_unknown", _DENIED, _asked("GET", _OWN, "nothing=1")),
)


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_the_default_policy_names_the_reason(house: House, refusal: Refusal) -> None:
    """Each operation that works in front of the store and not here has to be told from a fault."""
    answer = house.door.send(refusal.wire(house.endpoint))
    event = house.event_of(answer)
    assert (event["decision"], event["reason"], code_of(answer)) == ("deny", refusal.reason, refusal.code)
    assert SECRET not in answer.body
    # Whose table it was stands in the event alone.
    assert b"closed" not in answer.body.replace(_CLOSED.encode(), b"").replace(b"wh/closed/", b"")


def test_what_the_caller_may_not_delete_is_told_key_by_key(house: House) -> None:
    """One foreign key among a thousand must neither be deleted nor keep the others from being."""
    with closing(Owner(house.store)) as owner:
        owner.must("PUT", f"{BUCKET}/wh/own/data/old", body=b"old")
        keys = ("wh/own/data/old", "wh/own/data/never", _CLOSED, _BESIDE, _READ)
        body = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
        content = f"<Delete>{body}</Delete>".encode()
        headers = {"content-md5": content_md5(content)}
        target = target_of(BUCKET)
        answer = house.door.send(upload(house.endpoint, "POST", target, "delete=", body=content, headers=headers))
        assert answer.status == 200, answer.body
        for key in keys[:2]:
            assert f"<Deleted><Key>{key}</Key>" in answer.body.decode().replace("\n", "")
        assert answer.body.count(b"<Code>AccessDenied</Code>") == 3
        assert not owner.ask("HEAD", f"{BUCKET}/{keys[0]}").ok
        for key in keys[2:]:
            assert owner.must("GET", f"{BUCKET}/{key}").body == SECRET


def test_only_readable_buckets_are_listed(house: House) -> None:
    """What else the owner of the keys has is not told."""
    with Session(house.endpoint, BUCKET) as session:
        answer = session.ask("buckets", "GET", target="/")
    assert answer.status == 200
    assert answer.body.count(b"<Name>") == 1
    assert f"<Name>{BUCKET}</Name>".encode() in answer.body


def test_an_upload_belongs_to_its_key(house: House) -> None:
    """A caller that learns another upload's id could add parts to it under another key, or end it."""
    with Session(house.endpoint, BUCKET) as session, closing(Owner(house.store)) as owner:
        own = session.begin("wh/own/data/many")
        for key in ("wh/own/data/other", _READ):
            answer = session.put("elsewhere", key, b"part", f"partNumber=1&uploadId={own}")
            assert code_of(answer) in {"NoSuchUpload", _DENIED}, answer.body
        begun = owner.must("POST", f"{BUCKET}/wh/own/data/many", "uploads=").body.decode()
        theirs = begun.partition("<UploadId>")[2].partition("<")[0]
        answer = session.put("theirs", "wh/own/data/many", b"part", f"partNumber=1&uploadId={theirs}")
        assert code_of(answer) == "NoSuchUpload"
        assert session.ask("abort", "DELETE", "wh/own/data/many", f"uploadId={own}").status == 204
        owner.must("DELETE", f"{BUCKET}/wh/own/data/many", f"uploadId={theirs}")


def test_a_key_of_one_table_opens_that_table_alone(house: House) -> None:
    """A key that is handed to a job is the job's, whatever its maker may do besides."""
    scoped = house.door.endpoint(catalog="lake", namespace="db", table="read")
    assert house.door.send(sign(scoped, "GET", target_of(f"{BUCKET}/{_READ}")).wire()).body == SECRET
    assert house.door.send(sign(scoped, "GET", target_of(f"{BUCKET}/{_OWN}")).wire()).status == 403


@pytest.mark.parametrize(
    ("wrong", "code"),
    (
        ({"session_token": ""}, "InvalidAccessKeyId"),
        ({"secret": "another"}, "SignatureDoesNotMatch"),
        ({"access_key": "SPK1AAAAAAAAAAAAAAAA"}, "InvalidAccessKeyId"),
        ({"skew": 1000.0}, "RequestTimeTooSkewed"),
    ),
    ids=str,
)
def test_a_key_is_all_of_its_parts(house: House, wrong: dict[str, object], code: str) -> None:
    """What is told of a wrong key decides whether its user finds the mistake."""
    endpoint = replace(house.endpoint, **wrong)  # type: ignore[arg-type]  # the rows hold fields of Endpoint
    answer = house.door.send(sign(endpoint, "GET", target_of(f"{BUCKET}/{_OWN}")).wire())
    assert code_of(answer) == code
    assert answer.status in {400, 403}

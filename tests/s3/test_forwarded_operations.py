"""Which operations a proxy forwards: the table of the sign way and a few more, and in volumes what they open."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.s3.forward_wire import ForwardWire, service_operation
from signproxy.s3.forwarded_operations import find_forwarded
from signproxy.s3.operation import Access, Operation
from signproxy.s3.operations import BARE, Level
from signproxy.s3.request import S3Request
from signproxy.s3.rules import OperationsAllowed
from signproxy.s3.storage import OptIns
from tests.s3.forwarded_world import ALL, OBJECT, TABLE, asked, outcome, passes
from tests.s3.operation_rows import ROWS, Row
from tests.s3.world import KEY, MINIO

_DELETE = b"<Delete><Object><Key>wh/t1/a</Key></Object></Delete>"
_FORWARD_ONLY = {"HeadBucket", "GetBucketLocation", "ListMultipartUploads"}
_OF_OBJECTS = _FORWARD_ONLY | {
    "ListObjects", "ListObjectVersions", "GetObjectTagging", "PutObjectTagging", "DeleteObjectTagging",
    "GetObjectAttributes",
}  # fmt: skip
_NEVER = {"CreateSession", "RenameObject"}


def wire_of(row: Row) -> ForwardWire:
    return asked(
        row.method,
        KEY if row.level == "object" else "",
        row.query or None,
        row.headers if row.operation != "RenameObject" else {},
        body=_DELETE if row.operation == "DeleteObjects" else None,
    )


@pytest.mark.parametrize("allowed", OperationsAllowed)
@pytest.mark.parametrize("method", BARE)
def test_a_key_without_a_query_is_what_the_tables_say_of_it(method: str, allowed: OperationsAllowed) -> None:
    """Nearly every request is not looked up in them: it would be another operation than that of its shape."""
    assert find_forwarded(method, Level.OBJECT, {}, allowed, OptIns()) == (BARE[method], "")


_BUCKETS_OWN = [row for row in ROWS if row.level != "service"]


@pytest.mark.parametrize("row", _BUCKETS_OWN, ids=lambda row: row.operation)
def test_a_table_opens_the_thirteen_and_what_a_proxy_can_judge(row: Row) -> None:
    """A bucket policy that is forwarded by mistake opens the bucket."""
    wire = wire_of(row)
    if row.operation == "ListMultipartUploads":
        wire = replace(wire, raw_query="uploads&prefix=wh/t1/")
    found = outcome(wire, TABLE)
    if row.signed or row.operation in _FORWARD_ONLY:
        assert not isinstance(found, Reason)
        assert found.request.s3_name == row.operation
    else:
        assert found in (Reason.OPERATION_REFUSED, Reason.LIST_PREFIX)


@pytest.mark.parametrize("row", _BUCKETS_OWN, ids=lambda row: row.operation)
def test_a_volume_of_objects_opens_all_that_is_done_with_objects(row: Row) -> None:
    """An ACL is no part of an object's data: a caller that may write it could give the object away."""
    found = outcome(wire_of(row), OBJECT)
    if row.signed or row.operation in _OF_OBJECTS:
        assert not isinstance(found, Reason)
        assert found.request.s3_name == row.operation
        assert not found.request.named
    else:
        assert found is Reason.OPERATION_REFUSED


@pytest.mark.parametrize("row", _BUCKETS_OWN, ids=lambda row: row.operation)
def test_a_volume_of_everything_opens_what_s3_has_a_name_for(row: Row) -> None:
    """An operation without its name cannot be found in the audit trail; credentials are never handed on."""
    found = outcome(wire_of(row), ALL)
    if row.operation in _NEVER:
        assert found is Reason.OPERATION_REFUSED
        return
    assert not isinstance(found, Reason)
    request = found.request
    # Two names for one request share a row.
    assert request.s3_name.replace("Configuration", "") == row.operation.replace("Configuration", "")
    if request.named:
        writes = row.method not in ("GET", "HEAD")
        assert request.operation is (Operation.OTHER_WRITE if writes else Operation.OTHER_READ)
        assert request.operation.needs_write is writes


_KNOWN = (
    ("GET", KEY, "versionId=1&partNumber=2&response-content-type=text%2Fplain", Operation.GET_OBJECT),
    ("HEAD", KEY, "partNumber=1", Operation.HEAD_OBJECT),
    ("DELETE", KEY, "versionId=1", Operation.DELETE_OBJECT),
    ("GET", KEY, "tagging&versionId=1", Operation.GET_OBJECT_TAGGING),
    ("GET", "", "list-type=2", Operation.LIST_OBJECTS_V2),
    ("GET", "", "list-type=2&metadata=true&max-keys=none", Operation.LIST_OBJECTS_V2),
    ("GET", "", None, Operation.LIST_OBJECTS),
    ("GET", "", "versions", Operation.LIST_OBJECT_VERSIONS),
    ("GET", "", "uploads&x-id=ListMultipartUploads", Operation.LIST_MULTIPART_UPLOADS),
    ("GET", KEY, "partNumber=0", Operation.GET_OBJECT),
)


@pytest.mark.parametrize(("method", "key", "query", "operation"), _KNOWN)
def test_a_volume_takes_what_s3_takes(method: str, key: str, query: str | None, operation: Operation) -> None:
    """Versions, parts and whole lists are everyday business outside of tables; in tables no client needs them."""
    for rules in (OBJECT, ALL):
        assert passes(asked(method, key, query), rules).request.operation is operation
    assert isinstance(outcome(asked(method, key, query), TABLE), Reason)


@pytest.mark.parametrize(
    ("method", "key", "query", "reason"),
    (
        ("GET", KEY, "acl&versionId=1", None),
        ("GET", KEY, "acl&prefix=a", Reason.OPERATION_REFUSED),
        ("GET", "", "lifecycle&withUpdatedAt=true", None),
        ("GET", "", "policy&withUpdatedAt=true", Reason.OPERATION_REFUSED),
        ("GET", KEY, "acl&policy", Reason.OPERATION_REFUSED),
        ("GET", "", "session&id=1", Reason.OPERATION_REFUSED),
        ("GET", "", "id=1", Reason.OPERATION_REFUSED),
        ("GET", "", "uploads&id=1", Reason.OPERATION_REFUSED),
        ("GET", KEY, "events=x", Reason.OPERATION_UNKNOWN),
        ("POST", KEY, "compose", Reason.OPERATION_UNKNOWN),
        ("POST", KEY, "append&position=0", Reason.OPERATION_UNKNOWN),
        ("POST", "", None, Reason.OPERATION_UNKNOWN),
        ("POST", KEY, None, Reason.OPERATION_UNKNOWN),
        ("PUT", "", "versionId=1", Reason.OPERATION_REFUSED),
        ("PUT", "", "x-id=CreateBucket", None),
        ("PUT", KEY, "partNumber=1&uploadId=", Reason.OPERATION_UNKNOWN),
        ("OPTIONS", KEY, None, Reason.METHOD_UNKNOWN),
        ("PATCH", "", None, Reason.METHOD_UNKNOWN),
    ),
)
def test_what_s3_has_no_name_for_is_refused_everywhere(
    method: str, key: str, query: str | None, reason: Reason | None
) -> None:
    """Other stores have operations of their own there: they append, compose, listen or hand out keys."""
    found = outcome(asked(method, key, query), ALL)
    assert (found if isinstance(found, Reason) else None) is reason


@pytest.mark.parametrize("query", (None, "list-type=2", "delimiter=/", "versions", "uploads", "max-keys=x"))
def test_a_list_without_a_prefix_says_what_is_missing(query: str | None) -> None:
    """Its author looks for a privilege, and it is the prefix that is missing."""
    assert outcome(asked("GET", "", query), TABLE) is Reason.LIST_PREFIX
    assert outcome(asked("GET", "", "policy"), TABLE) is Reason.OPERATION_REFUSED


_OPT_INS = (
    (OptIns(tagging=True), "GET", KEY, "tagging", Operation.GET_OBJECT_TAGGING),
    (OptIns(tagging=True), "PUT", KEY, "tagging", Operation.PUT_OBJECT_TAGGING),
    (OptIns(tagging=True), "DELETE", KEY, "tagging", Operation.DELETE_OBJECT_TAGGING),
    (OptIns(recover=True), "GET", "", "versions&prefix=wh/t1/", Operation.LIST_OBJECT_VERSIONS),
)


@pytest.mark.parametrize(("opt_ins", "method", "key", "query", "operation"), _OPT_INS)
def test_in_a_table_the_storage_s_opt_ins_count(
    opt_ins: OptIns, method: str, key: str, query: str, operation: Operation
) -> None:
    """An opt-in that the operator did not give on one way must not be there on the other."""
    storage = replace(MINIO, opt_ins=opt_ins)
    assert passes(asked(method, key, query), TABLE, storage).request.operation is operation
    assert outcome(asked(method, key, query), TABLE) is Reason.OPERATION_REFUSED


@pytest.mark.parametrize(
    ("method", "query", "listed"),
    (
        ("GET", None, True),
        ("GET", "x-id=ListBuckets&max-buckets=10&prefix=a", True),
        ("GET", "acl", False),
        ("POST", None, False),
        ("HEAD", None, False),
    ),
)
def test_of_the_service_only_the_list_of_buckets_is_answered(method: str, query: str | None, *, listed: bool) -> None:
    """The service's own path is where stores have their administration."""
    wire = asked(method, "", query, bucket="")
    if listed:
        assert service_operation(wire).operation is Operation.LIST_BUCKETS
        return
    with pytest.raises(Refused):
        service_operation(wire)


def test_a_part_of_the_list_of_buckets_may_be_asked_for() -> None:
    """A caller with a thousand buckets reads them in parts; a part that ignores where it begins never ends."""
    found = service_operation(asked("GET", "", "max-buckets=2&prefix=a%2Db&continuation-token=a-b1", bucket=""))
    assert (found.prefix, found.after, found.most) == ("a-b", "a-b1", 2)
    found = service_operation(asked("GET", "", None, bucket=""))
    assert (found.prefix, found.after, found.most) == (None, "", 10_000)


def test_what_is_forward_s_alone_says_so() -> None:
    """An operation of a proxy that reached the sign way would be signed without a look at its answer."""
    assert {operation.s3_name for operation in Operation if operation.forward_only} == {
        "HeadBucket", "GetBucketLocation", "ListObjects", "ListBuckets", "GetObjectAttributes", "DeleteObjectTagging",
        "OtherRead", "OtherWrite",
    }  # fmt: skip


def test_a_list_is_judged_by_its_prefix() -> None:
    """A list that was judged by a key would be judged by none."""
    request: S3Request = passes(asked("GET", "", "prefix=wh%2Ft1%2F&delimiter=/")).request
    assert (request.operation, request.operation.access, request.prefix, request.key) == (
        Operation.LIST_OBJECTS,
        Access.LIST,
        "wh/t1/",
        "",
    )

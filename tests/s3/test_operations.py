"""Which S3 operations are signed: the allow-list, its opt-ins, and the name in each refusal."""

from __future__ import annotations

import pytest
from botocore.session import Session

from signproxy.errors import Reason, Refused
from signproxy.s3.classify import classify
from signproxy.s3.operation import Access, Operation
from signproxy.s3.operations import COPIES, SHAPES, Level, find_operation
from signproxy.s3.request import S3Request, WireRequest
from signproxy.s3.storage import OptIns
from signproxy.s3.unsigned_operations import UNSIGNED, name_of
from tests.s3.operation_rows import ROWS, Row
from tests.s3.world import AWS_HOST, AWS_PATH, KEY, accepted, outcome, wire, with_opt_ins

_PATHS = {"service": "https://s3.us-west-2.amazonaws.com/", "bucket": AWS_PATH, "object": f"{AWS_PATH}/{KEY}"}
_DELETE = "<Delete><Object><Key>wh/t1/a</Key></Object></Delete>"
NONE = OptIns()


def _request(row: Row) -> WireRequest:
    uri = _PATHS[row.level] + (f"?{row.query}" if row.query else "")
    return wire(row.method, uri, row.headers, body=_DELETE if row.operation == "DeleteObjects" else None)


def test_the_table_is_the_whole_model() -> None:
    """An operation that AWS adds and that was not looked at would be missing here."""
    model = set(Session().get_service_model("s3").operation_names)
    assert {row.operation for row in ROWS} >= model
    assert len(ROWS) == 116
    assert sum(row.signed for row in ROWS) == 13


@pytest.mark.parametrize("row", [row for row in ROWS if row.signed], ids=lambda row: row.operation)
def test_the_thirteen_operations_of_tables_are_found(row: Row) -> None:
    """A misread operation would be judged by the wrong privilege."""
    request = accepted(_request(replace_source(row)))
    assert request.operation.s3_name == row.operation


@pytest.mark.parametrize("row", [row for row in ROWS if not row.signed], ids=lambda row: row.operation)
def test_every_other_operation_is_refused_by_its_name(row: Row) -> None:
    """A bucket policy or an ACL signed by mistake opens the bucket; without the name the cause is not found."""
    with pytest.raises(Refused) as refused:
        classify_row(row)
    assert refused.value.reason is Reason.OPERATION_REFUSED
    assert row.operation in refused.value.detail


def replace_source(row: Row) -> Row:
    """Return the row with a source in a bucket of the storage."""
    if "x-amz-copy-source" not in row.headers:
        return row
    return row._replace(headers={"x-amz-copy-source": "/my-bucket/wh/t1/data/source.parquet"})


def classify_row(row: Row) -> S3Request:
    from tests.s3.world import ENDPOINTS

    return classify(ENDPOINTS, _request(row))


_ACCESS = [
    # GET and HEAD are not always reads of data, PUT not always a plain write: only the operation tells.
    (Operation.GET_OBJECT, Access.READ, False),
    (Operation.HEAD_OBJECT, Access.READ, False),
    (Operation.LIST_OBJECTS_V2, Access.LIST, False),
    (Operation.LIST_PARTS, Access.LIST, True),  # a GET, but only writers have uploads
    (Operation.PUT_OBJECT, Access.WRITE, True),
    (Operation.COPY_OBJECT, Access.WRITE, True),
    (Operation.CREATE_MULTIPART_UPLOAD, Access.WRITE, True),
    (Operation.UPLOAD_PART, Access.WRITE, True),
    (Operation.UPLOAD_PART_COPY, Access.WRITE, True),
    (Operation.COMPLETE_MULTIPART_UPLOAD, Access.WRITE, True),
    (Operation.ABORT_MULTIPART_UPLOAD, Access.DELETE, True),
    (Operation.DELETE_OBJECT, Access.DELETE, True),
    (Operation.DELETE_OBJECTS, Access.DELETE, True),
    (Operation.GET_OBJECT_TAGGING, Access.READ, False),
    (Operation.PUT_OBJECT_TAGGING, Access.WRITE, True),
    (Operation.LIST_OBJECT_VERSIONS, Access.LIST, False),
    (Operation.LIST_MULTIPART_UPLOADS, Access.LIST, True),
    (Operation.HEAD_BUCKET, Access.READ, False),
    (Operation.GET_BUCKET_LOCATION, Access.READ, False),
    (Operation.LIST_OBJECTS, Access.LIST, False),
    (Operation.LIST_BUCKETS, Access.LIST, False),
    (Operation.GET_OBJECT_ATTRIBUTES, Access.READ, False),
    (Operation.DELETE_OBJECT_TAGGING, Access.WRITE, True),
    (Operation.OTHER_READ, Access.READ, False),
    (Operation.OTHER_WRITE, Access.WRITE, True),
]


@pytest.mark.parametrize(("operation", "access", "needs_write"), _ACCESS, ids=[row[0].name for row in _ACCESS])
def test_each_operation_asks_for_its_privilege(operation: Operation, access: Access, needs_write: bool) -> None:
    """A write judged as a read lets readers change tables."""
    assert (operation.access, operation.needs_write) == (access, needs_write)


def test_no_operation_is_left_out_of_the_privileges() -> None:
    """An operation without a row above would carry whatever its line happens to say."""
    assert [row[0] for row in _ACCESS] == list(Operation)


_OPT_INS = [
    (OptIns(tagging=True), "GET", f"{AWS_HOST}/{KEY}?tagging", Operation.GET_OBJECT_TAGGING),
    (OptIns(tagging=True), "PUT", f"{AWS_HOST}/{KEY}?tagging=", Operation.PUT_OBJECT_TAGGING),
    (OptIns(recover=True), "GET", f"{AWS_HOST}?versions&prefix=wh/t1/a", Operation.LIST_OBJECT_VERSIONS),
    (OptIns(multipart_cleanup=True), "GET", f"{AWS_HOST}/?uploads&prefix=wh/t1/", Operation.LIST_MULTIPART_UPLOADS),
]


@pytest.mark.parametrize(("opt_ins", "method", "uri", "operation"), _OPT_INS, ids=[row[3].name for row in _OPT_INS])
def test_an_opt_in_opens_its_operation_and_no_other(
    opt_ins: OptIns, method: str, uri: str, operation: Operation
) -> None:
    """An opt-in that opens more than it says is a hole that the operator was not told of."""
    request = wire(method, uri)
    assert accepted(request, with_opt_ins(opt_ins)).operation is operation
    assert outcome(request) is Reason.OPERATION_REFUSED
    others = OptIns(
        tagging=not opt_ins.tagging, recover=not opt_ins.recover, multipart_cleanup=not opt_ins.multipart_cleanup
    )
    assert outcome(request, with_opt_ins(others)) is Reason.OPERATION_REFUSED


def test_the_refusal_names_the_missing_opt_in() -> None:
    """An operator who reads the denial should not have to search for the switch."""
    with pytest.raises(Refused, match="GetObjectTagging needs the storage's opt-in 'tagging'"):
        find_operation("GET", Level.OBJECT, {"tagging": ""}, NONE)


_SHAPES = [
    # (method, level, query, operation or the reason of the refusal)
    ("GET", Level.OBJECT, {"x-id": "GetObject"}, Operation.GET_OBJECT),
    ("PUT", Level.OBJECT, {"x-id": "PutObject"}, Operation.PUT_OBJECT),
    ("GET", Level.OBJECT, {"x-id": "a b"}, Reason.OPERATION_UNKNOWN),
    ("GET", Level.OBJECT, {"x-id": ""}, Reason.OPERATION_UNKNOWN),
    ("GET", Level.OBJECT, {"uploadId": "u"}, Operation.LIST_PARTS),
    ("GET", Level.OBJECT, {"uploadId": "u", "max-parts": "10", "part-number-marker": "3"}, Operation.LIST_PARTS),
    ("GET", Level.OBJECT, {"uploadId": ""}, Reason.OPERATION_UNKNOWN),
    ("GET", Level.OBJECT, {"uploadId": "ü"}, Reason.OPERATION_UNKNOWN),
    ("GET", Level.OBJECT, {"max-parts": "10"}, Reason.OPERATION_UNKNOWN),
    ("GET", Level.OBJECT, {"versionId": "v1"}, Reason.OPERATION_UNKNOWN),
    ("GET", Level.OBJECT, {"partNumber": "1"}, Reason.OPERATION_UNKNOWN),
    ("GET", Level.OBJECT, {"response-content-type": "text/html"}, Reason.OPERATION_UNKNOWN),
    ("HEAD", Level.OBJECT, {}, Operation.HEAD_OBJECT),
    ("HEAD", Level.OBJECT, {"uploadId": "u"}, Reason.OPERATION_UNKNOWN),
    ("HEAD", Level.BUCKET, {}, Reason.OPERATION_REFUSED),
    ("PUT", Level.OBJECT, {"partNumber": "1", "uploadId": "u"}, Operation.UPLOAD_PART),
    ("PUT", Level.OBJECT, {"partNumber": "0", "uploadId": "u"}, Reason.OPERATION_UNKNOWN),
    ("PUT", Level.OBJECT, {"partNumber": "10000", "uploadId": "u"}, Operation.UPLOAD_PART),
    ("PUT", Level.OBJECT, {"partNumber": "100000", "uploadId": "u"}, Reason.OPERATION_UNKNOWN),
    ("PUT", Level.OBJECT, {"partNumber": "1"}, Reason.OPERATION_UNKNOWN),
    ("PUT", Level.OBJECT, {"uploadId": "u"}, Reason.OPERATION_UNKNOWN),
    ("PUT", Level.OBJECT, {"append": "", "position": "0"}, Reason.OPERATION_UNKNOWN),  # Ceph
    ("POST", Level.OBJECT, {}, Reason.OPERATION_UNKNOWN),
    ("POST", Level.OBJECT, {"uploads": ""}, Operation.CREATE_MULTIPART_UPLOAD),
    ("POST", Level.OBJECT, {"uploads": "1"}, Reason.OPERATION_UNKNOWN),
    ("POST", Level.OBJECT, {"uploadId": "u"}, Operation.COMPLETE_MULTIPART_UPLOAD),
    ("POST", Level.OBJECT, {"uploads": "", "uploadId": "u"}, Reason.OPERATION_UNKNOWN),
    # The server dispatches on the path first: this is no bulk delete but something else on the object.
    ("POST", Level.OBJECT, {"delete": ""}, Reason.OPERATION_UNKNOWN),
    ("GET", Level.OBJECT, {"list-type": "2", "prefix": "wh/t1/"}, Reason.OPERATION_UNKNOWN),
    ("DELETE", Level.OBJECT, {"uploadId": "u"}, Operation.ABORT_MULTIPART_UPLOAD),
    ("DELETE", Level.OBJECT, {"versionId": "v"}, Reason.OPERATION_UNKNOWN),
    ("POST", Level.BUCKET, {"delete": ""}, Operation.DELETE_OBJECTS),
    ("POST", Level.BUCKET, {"delete": "x"}, Reason.OPERATION_UNKNOWN),
    ("POST", Level.BUCKET, {}, Reason.OPERATION_UNKNOWN),  # a browser's form upload
    ("GET", Level.BUCKET, {"list-type": "2", "prefix": "a/"}, Operation.LIST_OBJECTS_V2),
    ("GET", Level.BUCKET, {"list-type": "1", "prefix": "a/"}, Reason.OPERATION_UNKNOWN),
    ("GET", Level.BUCKET, {"list-type": "2"}, Reason.LIST_PREFIX),
    ("GET", Level.BUCKET, {"prefix": "a/"}, Reason.OPERATION_REFUSED),  # ListObjects V1
    ("GET", Level.BUCKET, {"list-type": "2", "prefix": "a/", "metadata": "true"}, Reason.OPERATION_REFUSED),  # MinIO
    ("GET", Level.BUCKET, {"events": "s3:ObjectCreated:*"}, Reason.OPERATION_REFUSED),  # MinIO
    ("GET", Level.BUCKET, {"versions": "", "prefix": "a/", "metadata": "true"}, Reason.OPERATION_REFUSED),
    ("GET", Level.SERVICE, {}, Reason.OPERATION_REFUSED),
    ("POST", Level.SERVICE, {"Action": "AssumeRole"}, Reason.OPERATION_REFUSED),  # STS of MinIO and Ceph
    ("PUT", Level.SERVICE, {}, Reason.OPERATION_UNKNOWN),
    ("PUT", Level.OBJECT, {"ACL": ""}, Reason.OPERATION_UNKNOWN),  # case counts
    # methods
    ("PATCH", Level.OBJECT, {}, Reason.METHOD_UNKNOWN),
    ("OPTIONS", Level.OBJECT, {}, Reason.METHOD_UNKNOWN),
    ("get", Level.OBJECT, {}, Reason.METHOD_UNKNOWN),
    ("put", Level.BUCKET, {}, Reason.METHOD_UNKNOWN),
    ("", Level.OBJECT, {}, Reason.METHOD_UNKNOWN),
]


@pytest.mark.parametrize(("method", "level", "query", "expected"), _SHAPES, ids=str)
def test_an_operation_is_its_method_its_level_and_exactly_its_query(
    method: str, level: Level, query: dict[str, str], expected: Operation | Reason
) -> None:
    """What is found by the method alone signs ACLs as writes and deletes as uploads."""
    try:
        found: Operation | Reason = find_operation(method, level, query, NONE)
    except Refused as refused:
        found = refused.reason
    assert found is expected


_LIST_VALUES = [
    ("delimiter", "/", True),
    ("delimiter", "", True),
    ("encoding-type", "url", True),
    ("encoding-type", "xml", False),
    ("fetch-owner", "true", True),
    ("fetch-owner", "false", True),
    ("fetch-owner", "1", False),
    ("max-keys", "1000", True),
    ("max-keys", "-1", False),
    ("max-keys", "1" * 10, True),
    ("max-keys", "1" * 11, False),
    ("start-after", "wh/t1/a", True),
    ("continuation-token", "abc", True),
    ("policy", "", False),
    ("acl", "", False),
    ("location", "", False),
    ("versions", "", False),
    ("uploads", "", False),
]


@pytest.mark.parametrize(("name", "value", "signed"), _LIST_VALUES)
def test_a_list_takes_its_documented_parameters_only(name: str, value: str, signed: bool) -> None:
    """An unknown parameter may turn the list into another operation on some store."""
    parameters = {"list-type": "2", "prefix": "wh/t1/", name: value}
    if signed:
        assert find_operation("GET", Level.BUCKET, parameters, NONE) is Operation.LIST_OBJECTS_V2
    else:
        with pytest.raises(Refused):
            find_operation("GET", Level.BUCKET, parameters, NONE)


_LIST_OPTIONALS = [
    (OptIns(recover=True), {"versions": "", "prefix": "a"}, "key-marker", "k"),
    (OptIns(recover=True), {"versions": "", "prefix": "a"}, "version-id-marker", "v"),
    (OptIns(recover=True), {"versions": "", "prefix": "a"}, "max-keys", "9"),
    (OptIns(recover=True), {"versions": "", "prefix": "a"}, "delimiter", "/"),
    (OptIns(recover=True), {"versions": "", "prefix": "a"}, "encoding-type", "url"),
    (OptIns(multipart_cleanup=True), {"uploads": "", "prefix": "a"}, "key-marker", "k"),
    (OptIns(multipart_cleanup=True), {"uploads": "", "prefix": "a"}, "upload-id-marker", "u"),
    (OptIns(multipart_cleanup=True), {"uploads": "", "prefix": "a"}, "max-uploads", "9"),
    (OptIns(multipart_cleanup=True), {"uploads": "", "prefix": "a"}, "delimiter", "/"),
    (OptIns(multipart_cleanup=True), {"uploads": "", "prefix": "a"}, "encoding-type", "url"),
]


@pytest.mark.parametrize(("opt_ins", "parameters", "name", "value"), _LIST_OPTIONALS)
def test_the_lists_of_an_opt_in_page_and_fold(
    opt_ins: OptIns, parameters: dict[str, str], name: str, value: str
) -> None:
    """A list that cannot be paged ends at its first thousand keys."""
    found = find_operation("GET", Level.BUCKET, {**parameters, name: value}, opt_ins)
    assert found.access is Access.LIST


def test_max_uploads_and_max_parts_are_numbers() -> None:
    """Text where a number belongs is no request of any client."""
    for opt_ins, level, parameters in (
        (OptIns(multipart_cleanup=True), Level.BUCKET, {"uploads": "", "prefix": "a", "max-uploads": "x"}),
        (NONE, Level.OBJECT, {"uploadId": "u", "max-parts": "x"}),
        (NONE, Level.OBJECT, {"uploadId": "u", "part-number-marker": "x"}),
    ):
        with pytest.raises(Refused) as refused:
            find_operation("GET", level, parameters, opt_ins)
        assert refused.value.reason is Reason.OPERATION_UNKNOWN


def test_markers_of_the_opt_ins_take_no_value() -> None:
    """`?tagging=x` is no spelling of any client, and stores disagree on what it means."""
    for opt_ins, method, level, parameters in (
        (OptIns(tagging=True), "GET", Level.OBJECT, {"tagging": "x"}),
        (OptIns(recover=True), "GET", Level.BUCKET, {"versions": "x", "prefix": "a"}),
        (OptIns(multipart_cleanup=True), "GET", Level.BUCKET, {"uploads": "x", "prefix": "a"}),
    ):
        with pytest.raises(Refused) as refused:
            find_operation(method, level, parameters, opt_ins)
        assert refused.value.reason is Reason.OPERATION_UNKNOWN


def test_a_copy_is_a_put_with_a_source() -> None:
    """A copy that passes as a plain write reads any object that the signing key can read."""
    assert COPIES == {
        Operation.PUT_OBJECT: Operation.COPY_OBJECT,
        Operation.UPLOAD_PART: Operation.UPLOAD_PART_COPY,
    }


@pytest.mark.parametrize("method", ("GET", "HEAD", "DELETE", "POST"))
def test_a_copy_source_belongs_to_a_put(method: str) -> None:
    """A copy source on anything else is an attempt to find a store that acts on it."""
    uri = f"{AWS_HOST}/{KEY}{'?uploads' if method == 'POST' else ''}"
    request = wire(method, uri, {"x-amz-copy-source": "/my-bucket/wh/t1/a"})
    assert outcome(request) is Reason.HEADER_VALUE


def test_the_detail_says_what_was_asked() -> None:
    """`operation_unknown` alone does not tell an operator which parameter to look at."""
    with pytest.raises(Refused, match="PUT on object level, query names: position, zzz"):
        find_operation("PUT", Level.OBJECT, {"zzz": "", "position": "0"}, NONE)
    with pytest.raises(Refused, match="POST on bucket level, query names: none"):
        find_operation("POST", Level.BUCKET, {}, NONE)
    with pytest.raises(Refused, match="method 'PATCH'"):
        find_operation("PATCH", Level.BUCKET, {}, NONE)
    with pytest.raises(Refused, match="no prefix: GET on bucket level, query names: list-type"):
        find_operation("GET", Level.BUCKET, {"list-type": "2"}, NONE)
    with pytest.raises(Refused, match="UploadPart with partNumber='0'"):
        find_operation("PUT", Level.OBJECT, {"partNumber": "0", "uploadId": "u"}, NONE)


def test_no_two_shapes_fit_one_request() -> None:
    """If two did, their order in the table would decide, not the request."""
    checked = 0
    for (method, level), shapes in SHAPES.items():
        for shape in shapes:
            for optional in (frozenset[str](), shape.optional):
                names = shape.required | optional
                fitting = [s for s in shapes if s.required <= names <= s.required | s.optional]
                assert fitting == [shape], (method, level, names)
                checked += 1
    assert checked == 30


@pytest.mark.parametrize(("method", "level"), list(UNSIGNED), ids=str)
def test_the_more_specific_name_wins(method: str, level: str) -> None:
    """`?analytics&id=` asked of the list's row would name the wrong operation."""
    for operation, markers in UNSIGNED[method, level]:
        assert name_of(method, level, set(markers)) == operation


def test_an_unknown_query_has_no_name() -> None:
    """A made-up name in a refusal sends the operator the wrong way."""
    assert name_of("DELETE", "object", {"nothing"}) is None
    assert name_of("PATCH", "object", set()) is None

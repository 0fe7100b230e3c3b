"""Ids of multipart uploads, bound to the place that they were handed out for."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason, Refused
from signproxy.forward.uploads import UploadIds, UploadScope
from signproxy.s3.operation import Operation
from signproxy.s3.xml_document import read_document
from signproxy.sealing import MARK_LENGTH, MIN_SECRET, Marker, Purpose, SealingSecret
from tests.pieces import drained

OLD, NEW = (SealingSecret(bytes([n]) * MIN_SECRET) for n in (1, 2))
TABLE = UploadScope("lake.ns.t1", "data")
OTHERS = (UploadScope("lake.ns.t2", "data"), UploadScope("lake.ns.t1", "date"))
KEY = "wh/t1/data/a b.parquet"


def ids(*secrets: SealingSecret) -> UploadIds:
    return UploadIds(Marker(secrets or (NEW,), Purpose.UPLOAD_ID))


def created(upload_id: str, place: UploadScope = TABLE, key: str = KEY, by: UploadIds | None = None) -> str:
    """Return the id that a client gets for the store's own."""
    document = f"<InitiateMultipartUploadResult><UploadId>{upload_id}</UploadId></InitiateMultipartUploadResult>"
    marked = drained((by or ids()).marked(place, Operation.CREATE_MULTIPART_UPLOAD, key, document.encode())).decode()
    return marked.partition("<UploadId>")[2].partition("</UploadId>")[0]


def sent(upload_id: str, place: UploadScope = TABLE, key: str = KEY, by: UploadIds | None = None) -> tuple[str, str]:
    return (by or ids()).stripped(
        place, key, f"/data/wh?partNumber=1&uploadId={upload_id}", f"partNumber=1&uploadId={upload_id}"
    )


@pytest.mark.parametrize("upload_id", ("VXBsb2FkIElE", "a.b.c", "2~x_-", "x" * 500))
def test_the_store_gets_its_own_id_back(upload_id: str) -> None:
    """No multipart upload could be finished."""
    marked = created(upload_id)
    assert marked.startswith(f"{upload_id}.")
    assert len(marked) == len(upload_id) + 1 + MARK_LENGTH
    assert sent(marked) == (f"/data/wh?partNumber=1&uploadId={upload_id}", f"partNumber=1&uploadId={upload_id}")


def test_an_id_is_good_for_its_table_bucket_and_key_alone() -> None:
    """A caller that may write one table could complete, or abort, the uploads of another."""
    marked = created("abc")
    for place, key in (*((other, KEY) for other in OTHERS), (TABLE, "wh/t1/data/b"), (TABLE, "")):
        with pytest.raises(Refused) as refusal:
            sent(marked, place, key)
        assert refusal.value.reason is Reason.UPLOAD_ID


@pytest.mark.parametrize(
    "change", ("", "x", "abc", "abc.", "." + "A" * 22, "abc." + "A" * 22, "abcd.{mark}", "abc{mark}")
)
def test_an_id_that_was_not_handed_out_is_no_upload(change: str) -> None:
    """A client could use an id that it learned from the store's own log or list."""
    mark = created("abc").partition(".")[2]
    with pytest.raises(Refused) as refusal:
        sent(change.replace("{mark}", mark))
    assert refusal.value.reason is Reason.UPLOAD_ID


def test_uploads_outlive_a_change_of_secrets() -> None:
    """Uploads that were begun before the secrets were rotated would be stranded."""
    marked = created("abc", by=ids(OLD))
    assert "uploadId=abc" in sent(marked, by=ids(NEW, OLD))[0]
    with pytest.raises(Refused):
        sent(marked, by=ids(NEW))


def test_an_id_with_escapes_stays_as_the_client_wrote_it() -> None:
    """The store would be sent a target that is not the signed one."""
    upload_id = "a/b+c="
    mark = created(upload_id).rpartition(".")[2]
    for raw in ("a%2Fb%2Bc%3D", "a%2fb%2bc%3d", "a/b%2Bc="):
        target, canonical = ids().stripped(
            TABLE, KEY, f"/data/wh?uploadId={raw}.{mark}", f"uploadId=a%2Fb%2Bc%3D.{mark}"
        )
        assert target == f"/data/wh?uploadId={raw}"
        assert canonical == "uploadId=a%2Fb%2Bc%3D"
    # A client that escapes what needs no escape.
    target, canonical = ids().stripped(
        TABLE, KEY, f"/d?uploadId=a%2Fb%2Bc%3D%2E{mark}", f"uploadId=a%2Fb%2Bc%3D.{mark}"
    )
    assert (target, canonical) == ("/d?uploadId=a%2Fb%2Bc%3D", "uploadId=a%2Fb%2Bc%3D")


def test_other_parameters_stay_byte_for_byte() -> None:
    """A changed parameter breaks the signature, or asks for something else."""
    marked = created("abc")
    target, canonical = ids().stripped(
        TABLE,
        KEY,
        f"/data/k%C3%a4?x-id=UploadPart&uploadId={marked}&partNumber=%31",
        f"partNumber=1&uploadId={marked}&x-id=UploadPart",
    )
    assert target == "/data/k%C3%a4?x-id=UploadPart&uploadId=abc&partNumber=%31"
    assert canonical == "partNumber=1&uploadId=abc&x-id=UploadPart"


LIST = (
    '<?xml version="1.0"?><ListMultipartUploadsResult><Bucket>data</Bucket>{head}'
    "<Upload><Key>wh/t1/a&amp;b</Key><UploadId>one</UploadId></Upload>\n"
    "<Upload><UploadId>two</UploadId><Key>{second}</Key></Upload></ListMultipartUploadsResult>"
)


@pytest.mark.parametrize("encoded", (False, True))
def test_each_upload_of_a_list_is_marked_for_its_own_key(encoded: bool) -> None:
    """A user who cleans up could abort none of what the list shows."""
    head = "<KeyMarker>wh/t1/0</KeyMarker><UploadIdMarker>zero</UploadIdMarker>"
    head += "<NextKeyMarker>wh/t1/a</NextKeyMarker><NextUploadIdMarker>one</NextUploadIdMarker>"
    head += "<EncodingType>url</EncodingType>" if encoded else ""
    second = "wh/t1/x+y%C3%A4" if encoded else "wh/t1/x yä"
    document = LIST.format(head=head, second=second).encode()
    text = drained(ids().marked(TABLE, Operation.LIST_MULTIPART_UPLOADS, "", document)).decode()
    one, two = (part.partition("</UploadId>")[0] for part in text.split("<UploadId>")[1:])
    assert "uploadId=one" in sent(one, key="wh/t1/a&b")[0]
    assert "uploadId=two" in sent(two, key="wh/t1/x yä")[0]
    begins = text.partition("<UploadIdMarker>")[2].partition("<")[0]
    assert "uploadId=zero" in sent(begins, key="wh/t1/0")[0]
    marker = text.partition("<NextUploadIdMarker>")[2].partition("<")[0]
    target, canonical = ids().stripped(
        TABLE,
        "",
        f"/data?uploads&key-marker=wh%2Ft1%2Fa&upload-id-marker={marker}",
        f"key-marker=wh%2Ft1%2Fa&upload-id-marker={marker}&uploads=",
    )
    assert target == "/data?uploads&key-marker=wh%2Ft1%2Fa&upload-id-marker=one"
    assert canonical == "key-marker=wh%2Ft1%2Fa&upload-id-marker=one&uploads="


def test_a_foreign_position_in_a_list_is_the_stores_to_judge() -> None:
    """Clients that begin a list at a place of their own would be told that an upload is missing."""
    target = "/data?uploads&key-marker=a&upload-id-marker=zzz"
    assert ids().stripped(TABLE, "", target, "key-marker=a&upload-id-marker=zzz&uploads=")[0] == target


@pytest.mark.parametrize(
    "document",
    (
        b"",
        b"<InitiateMultipartUploadResult/>",
        b"<R><UploadId>a</UploadId><UploadId>b</UploadId></R>",
        b"<R><UploadId>\xff</UploadId></R>",
        b"\x1f\x8b gzip",
    ),
)
def test_an_answer_without_its_id_is_not_passed_on(document: bytes) -> None:
    """A client would get an id that is never accepted again."""
    with pytest.raises(Refused) as refusal:
        drained(ids().marked(TABLE, Operation.CREATE_MULTIPART_UPLOAD, KEY, document))
    assert refusal.value.reason is Reason.STORE_INVALID


def test_an_upload_of_a_list_without_its_key_is_not_passed_on() -> None:
    """It could only be marked for no key at all."""
    with pytest.raises(Refused) as refusal:
        drained(
            ids().marked(TABLE, Operation.LIST_MULTIPART_UPLOADS, "", b"<R><Upload><UploadId>a</UploadId></Upload></R>")
        )
    assert refusal.value.reason is Reason.STORE_INVALID


def test_a_thousand_uploads_are_marked_piece_by_piece() -> None:
    """A mark for each of them in one go keeps every other caller waiting for as long as a hundred reads take."""
    upload = "<Upload><Key>wh/t1/{0}</Key><UploadId>{0}</UploadId></Upload>"
    document = f"<R>{''.join([upload.format(number) for number in range(1000)])}</R>".encode()
    read = sum(1 for _ in read_document(document))
    pieces = sum(1 for _ in ids().marked(TABLE, Operation.LIST_MULTIPART_UPLOADS, "", document))
    assert pieces - read == 1000 // 16
    assert drained(ids().marked(TABLE, Operation.LIST_MULTIPART_UPLOADS, "", document)).count(b".") == 1000

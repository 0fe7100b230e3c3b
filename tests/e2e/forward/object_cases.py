"""What clients do with single objects."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from urllib.parse import quote

from tests.e2e.forward.bodies import BODY, LARGE
from tests.e2e.forward.session import Session
from tests.e2e.forward.signer import ALGORITHMS, SHAPES, Payload, Shape, checksum_of, content_md5


def put_and_read(shape: Shape, body: bytes) -> Callable[[Session], None]:
    def steps(session: Session) -> None:
        session.put("put", "object", body, shape=shape, headers={"content-type": "text/x-case"})
        session.ask("get", "GET", "object")
        session.ask("head", "HEAD", "object")
        session.ask("delete", "DELETE", "object")
        session.ask("gone", "GET", "object")
        session.ask("head of nothing", "HEAD", "object")

    return steps


def named(key: str) -> Callable[[Session], None]:
    def steps(session: Session) -> None:
        session.put("put", key, BODY)
        session.put("put in chunks", key, BODY, shape=Shape(Payload.UNSIGNED_TRAILER))
        session.ask("get", "GET", key)
        session.ask("head", "HEAD", key)
        session.ask("list", "GET", query=f"list-type=2&prefix={quote(key, safe='~')}")
        source = quote(f"/{session.bucket}/{key}", safe="/~")
        session.ask("copy", "PUT", "copied", headers={"x-amz-copy-source": source})
        session.ask("get copy", "GET", "copied")
        session.presigned("presigned get", "GET", key)
        upload = session.begin(key)
        session.put("part", key, BODY, f"partNumber=1&uploadId={upload}")
        session.ask("abort", "DELETE", key, f"uploadId={upload}")
        session.put("keep", f"kept/{key}", BODY)
        session.ask("delete", "DELETE", key)
        session.ask("gone", "GET", key)

    return steps


def spelled(spelling: str) -> Callable[[Session], None]:
    def steps(session: Session) -> None:
        session.put("put", "", BODY, target=session.raw(spelling))
        session.ask("get", "GET", target=session.raw(spelling))

    return steps


def ranges(session: Session) -> None:
    session.put("put", "object", LARGE)
    session.put("put empty", "empty", b"")
    for key in ("object", "empty"):
        for wanted in (
            "bytes=0-0", "bytes=0-9", "bytes=100-", "bytes=-7", "bytes=0-99999999", "bytes=99999999-", "bytes=9-3",
            "bytes=0-1,4-5", "lines=0-1", "bytes=a-b", f"bytes={len(LARGE) - 1}-",
        ):  # fmt: skip
            session.ask(f"{key} {wanted}", "GET", key, headers={"range": wanted})
        session.ask(f"{key} head of range", "HEAD", key, headers={"range": "bytes=1-3"})


def conditional_reads(session: Session) -> None:
    etag = session.put("put", "object", BODY).headers.get("etag", "")
    past, future = "Sat, 01 Jan 2000 00:00:00 GMT", "Thu, 01 Jan 2099 00:00:00 GMT"
    for method in ("GET", "HEAD"):
        for label, headers in (
            ("match", {"if-match": etag}),
            ("match any", {"if-match": "*"}),
            ("match other", {"if-match": '"0123"'}),
            ("match one of", {"if-match": f'"0123", {etag}'}),
            ("none match", {"if-none-match": etag}),
            ("none match other", {"if-none-match": '"0123"'}),
            ("modified", {"if-modified-since": past}),
            ("not modified", {"if-modified-since": future}),
            ("unmodified", {"if-unmodified-since": future}),
            ("not unmodified", {"if-unmodified-since": past}),
            ("both", {"if-match": etag, "if-unmodified-since": past}),
            ("if range", {"if-range": etag, "range": "bytes=0-3"}),
        ):
            session.ask(f"{method} {label}", method, "object", headers=headers)


def conditional_writes(session: Session) -> None:
    session.put("new", "object", BODY, headers={"if-none-match": "*"})
    session.put("not new", "object", b"other", headers={"if-none-match": "*"})
    etag = session.ask("get", "GET", "object").headers.get("etag", "")
    session.put("not the same", "object", b"other", headers={"if-match": '"0123"'})
    session.put("the same", "object", BODY, headers={"if-match": etag})
    session.put("of nothing", "nothing", BODY, headers={"if-match": etag})
    session.ask("get after", "GET", "object")
    session.ask("gone", "GET", "nothing")


def metadata(session: Session) -> None:
    given = {
        "content-type": "application/vnd.case+json; charset=utf-8",
        "cache-control": "max-age=7, private",
        "content-disposition": 'attachment; filename="a b.txt"',
        "content-language": "de",
        "expires": "Thu, 01 Dec 2099 16:00:00 GMT",
        "x-amz-meta-one": "1",
        "x-amz-meta-with-blanks": "a  b",
        "x-amz-meta-UPPER": "Case",
        "x-amz-meta-empty": "",
        "x-amz-meta-encoded": "=?UTF-8?B?w6k=?=",
    }
    session.put("put", "object", BODY, headers=given)
    session.ask("head", "HEAD", "object")
    session.ask("get", "GET", "object")
    source = {"x-amz-copy-source": f"/{session.bucket}/object"}
    session.ask("copy", "PUT", "same", headers=source)
    session.ask("head same", "HEAD", "same")
    replaced = {"x-amz-metadata-directive": "REPLACE", "x-amz-meta-two": "2", "content-type": "text/plain"}
    session.ask("copy and replace", "PUT", "other", headers={**source, **replaced})
    session.ask("head other", "HEAD", "other")
    session.ask("in place", "PUT", "object", headers={**source, **replaced})
    session.ask("head in place", "HEAD", "object")
    session.ask("in place without change", "PUT", "object", headers=source)


def codings(session: Session) -> None:
    packed = gzip.compress(BODY, mtime=0)
    for label, shape in (("plain", Shape()), ("framed", Shape(Payload.UNSIGNED_TRAILER))):
        session.put(f"put {label}", label, packed, shape=shape, headers={"content-encoding": "gzip"})
        session.ask(f"get {label}", "GET", label)
        session.ask(f"get {label} as gzip", "GET", label, headers={"accept-encoding": "gzip, br"})
    session.put("put deflated in name only", "wrong", BODY, headers={"content-encoding": "deflate"})
    session.ask("get wrong", "GET", "wrong")


def overrides(session: Session) -> None:
    session.put("put", "object", BODY)
    query = (
        "response-cache-control=no-cache&response-content-disposition=attachment%3B%20filename%3Da%2Bb"
        "&response-content-encoding=x-case&response-content-language=fr&response-content-type=text%2Fcase"
        "&response-expires=Thu%2C%2001%20Dec%202099%2016%3A00%3A00%20GMT"
    )
    session.ask("get", "GET", "object", query)
    session.ask("head", "HEAD", "object", query)
    session.presigned("presigned", "GET", "object", query)


def expects(session: Session) -> None:
    for shape in SHAPES:
        session.put(f"put {shape}", "object", BODY, shape=shape, headers={"expect": "100-continue"})
        session.ask(f"get {shape}", "GET", "object")


def checksums(session: Session) -> None:
    for algorithm in ALGORITHMS:
        name = f"x-amz-checksum-{algorithm}"
        right, wrong = checksum_of(algorithm, BODY), checksum_of(algorithm, b"other")
        session.put(f"{algorithm} good", algorithm, BODY, headers={name: right})
        session.ask(f"{algorithm} get", "GET", algorithm, headers={"x-amz-checksum-mode": "ENABLED"})
        session.ask(f"{algorithm} head", "HEAD", algorithm, headers={"x-amz-checksum-mode": "ENABLED"})
        session.put(f"{algorithm} bad", f"{algorithm}-bad", BODY, headers={name: wrong})
        session.ask(f"{algorithm} nothing", "GET", f"{algorithm}-bad")
        for payload in (Payload.UNSIGNED_TRAILER, Payload.SIGNED_TRAILER):
            label = f"{algorithm} {payload.value}"
            session.put(label, label, BODY, shape=Shape(payload, algorithm=algorithm))
            session.ask(f"{label} get", "GET", label, headers={"x-amz-checksum-mode": "ENABLED"})
    session.put("md5 good", "md5", BODY, headers={"content-md5": content_md5(BODY)})
    session.put("md5 bad", "md5-bad", BODY, headers={"content-md5": content_md5(b"other")})
    session.put("md5 no base64", "md5-bad", BODY, headers={"content-md5": "?"})
    session.ask("md5 nothing", "GET", "md5-bad")


def copies(session: Session) -> None:
    etag = session.put("put", "source/object", LARGE).headers.get("etag", "")
    source = {"x-amz-copy-source": f"/{session.bucket}/source/object"}
    bare = {"x-amz-copy-source": f"{session.bucket}/source/object"}
    session.ask("copy", "PUT", "one", headers=source)
    session.ask("copy, without a slash", "PUT", "two", headers=bare)
    session.ask("copy encoded", "PUT", "three", headers={"x-amz-copy-source": quote(source["x-amz-copy-source"], "")})
    session.ask("copy of nothing", "PUT", "four", headers={"x-amz-copy-source": f"/{session.bucket}/nothing"})
    for label, headers in (
        ("match", {"x-amz-copy-source-if-match": etag}),
        ("match other", {"x-amz-copy-source-if-match": '"0123"'}),
        ("none match", {"x-amz-copy-source-if-none-match": etag}),
        ("none match other", {"x-amz-copy-source-if-none-match": '"0123"'}),
        ("modified", {"x-amz-copy-source-if-modified-since": "Sat, 01 Jan 2000 00:00:00 GMT"}),
        ("unmodified", {"x-amz-copy-source-if-unmodified-since": "Sat, 01 Jan 2000 00:00:00 GMT"}),
    ):
        session.ask(f"copy {label}", "PUT", f"if {label}", headers={**source, **headers})
    for key in ("one", "two", "three", "four"):
        session.ask(f"get {key}", "GET", key)


def presigned(session: Session) -> None:
    session.presigned("put", "PUT", "object", body=BODY)
    # As the SDK for JavaScript presigns an upload: the checksum is that of a body which is not there yet.
    checksum = "x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32"
    session.presigned("put, with a checksum in the query", "PUT", "object", f"{checksum}&x-id=PutObject", body=BODY)
    session.presigned(
        "put, with metadata in the query", "PUT", "named", f"{checksum}&x-amz-meta-a=voil%C3%A0", body=BODY
    )
    session.presigned("head named", "HEAD", "named", "x-amz-checksum-mode=ENABLED")
    upload_id = session.begin("parts")
    part = f"partNumber=1&uploadId={upload_id}&x-id=UploadPart"
    session.presigned("part, with a checksum in the query", "PUT", "parts", f"{checksum}&{part}", body=BODY)
    session.presigned("list parts", "GET", "parts", f"uploadId={upload_id}")
    session.presigned("get", "GET", "object")
    session.presigned("head", "HEAD", "object")
    session.presigned("list", "GET", "", "list-type=2&prefix=")
    session.presigned("delete", "DELETE", "object")
    session.presigned("gone", "GET", "object")

"""What clients do with uploads in parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tests.e2e.forward.bodies import BODY, LARGE, PART
from tests.e2e.forward.session import Session
from tests.e2e.forward.signer import Shape
from tests.e2e.wire import Answer


def _completed(parts: dict[int, Answer]) -> bytes:
    listed = "".join(
        f"<Part>{_checksum_of(answer)}<PartNumber>{number}</PartNumber>"
        f"<ETag>{answer.headers.get('etag', '')}</ETag></Part>"
        for number, answer in sorted(parts.items())
    )
    return f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()


def _checksum_of(answer: Answer) -> str:
    value = answer.headers.get("x-amz-checksum-crc32", "")
    return f"<ChecksumCRC32>{value}</ChecksumCRC32>" if value else ""


def multipart(shape: Shape) -> Callable[[Session], None]:
    def steps(session: Session) -> None:
        session.ask("list of none", "GET", query="uploads=&prefix=many")
        given = {"content-type": "text/x-case", "x-amz-meta-a": "b"}
        if shape.payload.has_trailer:
            given["x-amz-checksum-algorithm"] = shape.algorithm.upper()
        upload = session.begin("many", headers=given)
        parts = {
            number: session.put(f"part {number}", "many", body, f"partNumber={number}&uploadId={upload}", shape=shape)
            for number, body in ((1, PART), (2, LARGE))
        }
        session.ask("list parts", "GET", "many", f"uploadId={upload}")
        session.ask("list parts from 1", "GET", "many", f"max-parts=1&part-number-marker=1&uploadId={upload}")
        session.ask("list uploads", "GET", query="uploads=&prefix=many")
        session.put("complete", "many", _completed(parts), f"uploadId={upload}", method="POST")
        session.ask("get", "GET", "many", headers={"range": f"bytes={len(PART) - 5}-{len(PART) + 5}"})
        session.ask("get part", "GET", "many", "partNumber=2")
        session.ask("head", "HEAD", "many")
        session.ask("list parts after", "GET", "many", f"uploadId={upload}")
        session.ask("abort after", "DELETE", "many", f"uploadId={upload}")

    return steps


def multipart_errors(session: Session) -> None:
    upload = session.begin("many")
    part = session.put("part", "many", BODY, f"partNumber=1&uploadId={upload}")
    session.put("part 0", "many", BODY, f"partNumber=0&uploadId={upload}")
    session.put("part 10001", "many", BODY, f"partNumber=10001&uploadId={upload}")
    session.put("complete wrong", "many", _completed({7: part}), f"uploadId={upload}", method="POST")
    session.put("complete no xml", "many", b"<Complete", f"uploadId={upload}", method="POST")
    session.put("complete empty", "many", _completed({}), f"uploadId={upload}", method="POST")
    session.ask("abort", "DELETE", "many", f"uploadId={upload}")
    session.put("part after", "many", BODY, f"partNumber=1&uploadId={upload}")
    session.ask("list after", "GET", "many", f"uploadId={upload}")


def part_copies(session: Session) -> None:
    session.put("put", "source", PART + LARGE)
    upload = session.begin("many")
    source = {"x-amz-copy-source": f"/{session.bucket}/source"}
    parts = {}
    for number, wanted in ((1, f"bytes=0-{len(PART) - 1}"), (2, f"bytes={len(PART)}-{len(PART) + 9}")):
        headers = {**source, "x-amz-copy-source-range": wanted}
        answer = session.ask(f"copy {wanted}", "PUT", "many", f"partNumber={number}&uploadId={upload}", headers=headers)
        found = re.search(rb"<ETag>([^<]+)</ETag>", answer.body)
        etag = found[1].decode().replace("&quot;", '"').replace("&#34;", '"') if found else ""
        parts[number] = replace(answer, headers={"etag": etag})
    for wanted in ("bytes=0-99999999", "bytes=5-1", "0-5"):
        headers = {**source, "x-amz-copy-source-range": wanted}
        session.ask(f"copy {wanted}", "PUT", "many", f"partNumber=3&uploadId={upload}", headers=headers)
    session.put("complete", "many", _completed(parts), f"uploadId={upload}", method="POST")
    session.ask("head", "HEAD", "many")

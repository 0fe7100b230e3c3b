"""What the body of an answer says that its status does not."""

from __future__ import annotations

import pytest

from signproxy.forward.verdict import COMPLETED, UNKNOWN, BodyVerdict

RESULT = b'<?xml version="1.0" encoding="UTF-8"?>\n<CompleteMultipartUploadResult xmlns="http://s3/"><ETag>"x"</ETag>'
ERROR = b'<?xml version="1.0"?>\n\n<Error><Code>InternalError</Code><Message>We encountered</Message></Error>'


@pytest.mark.parametrize(
    ("body", "verdict"),
    (
        (RESULT, COMPLETED),
        (b"<CopyObjectResult/>", COMPLETED),
        (ERROR, "InternalError"),
        (b"<Error><Message>x</Message></Error>", "Error"),
        (b"<Error><Code>Bad\x01Code</Code></Error>", "Error"),
        (b" " * 100_000 + ERROR, "InternalError"),
        (b"", UNKNOWN),
        (b"   \n", UNKNOWN),
        (b"no XML", UNKNOWN),
        # However a store writes it, clients read an error.
        (b"<!-- x -->" + ERROR.partition(b"?>")[2].lstrip(), "InternalError"),
        (b'<?xml version="1.0"?><?a b?><!-- y --><Error><Code>X</Code></Error>', "X"),
        (b'<Error xmlns="x"><Message>m</Message><Code >\nInternal<![CDATA[Error]]>\n</Code></Error>', "InternalError"),
        (b'<?xml version="1.0"?>\n' + b" " * 10_000 + b"<Error><Code>X</Code></Error>", "X"),
        (b"\xef\xbb\xbf" + ERROR, "InternalError"),
        # And no error where there is none.
        (b"<CopyObjectResult><!-- <Error><Code>X</Code></Error> --></CopyObjectResult>", COMPLETED),
        (b"<CompleteMultipartUploadResult><Error/></CompleteMultipartUploadResult>", COMPLETED),
        (b"<Error><Resource><Code>X</Code></Resource></Error>", "Error"),
        (b"<Error><Code>X</Code><Code>Y</Code></Error>", "Error"),
        (b"<Error><Code>no code</Code></Error>", "Error"),
        (b"<Error><Code>" + b"X" * 65 + b"</Code></Error>", "Error"),
        (b"<Error><Code>X", "Error"),
        (b"<s3:Error xmlns:s3='x'><s3:Code>X</s3:Code></s3:Error>", UNKNOWN),
        (b"<!DOCTYPE a><Error/>", UNKNOWN),
    ),
)
@pytest.mark.parametrize("step", (1, 7, 1_000_000))
def test_an_error_document_after_a_200_is_seen(body: bytes, verdict: str, step: int) -> None:
    """The audit trail would call a lost upload complete."""
    watch = BodyVerdict()
    if step == 1:
        body = body[-500:] if len(body) > 500 else body
    for start in range(0, len(body), step):
        watch.watch(memoryview(body)[start : start + step])
    assert watch.result() == verdict


def test_only_the_beginning_of_a_body_is_kept() -> None:
    """A store that answers gigabytes would fill the memory."""
    watch = BodyVerdict()
    for _ in range(100):
        watch.watch(b"<Result>" + b"x" * 65_536)
    assert len(watch._kept) <= 4096

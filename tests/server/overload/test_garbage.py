"""What a refused request leaves behind is gone with it: none of it waits for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import msgspec
import pytest

from signproxy.errors import Reason, anew
from signproxy.s3.codes import Worded
from tests.forward.upstream import serving
from tests.garbage import nothing_kept
from tests.product import SIGN_T1, Product, ServeProduct, sign_message
from tests.server.overload.test_work import deletion
from tests.server.s3.door import opened

MANY = 20


@pytest.fixture(autouse=True, scope="module")
def frozen() -> Iterator[None]:
    """Look through what was there before once, and not for each of the tests."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize(
    ("method", "target", "body", "reason"),
    (
        ("GET", "/data/wh/t2/data/a", None, Reason.NO_REMOTE_SIGN),
        ("GET", "/data/nowhere/a", None, Reason.LOCATION_UNOWNED),
        ("GET", "/nowhere/a", None, Reason.ENDPOINT_UNKNOWN),
        ("GET", "/data/wh/t1/../t2/a", None, Reason.KEY_DOT_SEGMENT),
        ("GET", "/data/wh/t1/data/a?acl", None, Reason.OPERATION_REFUSED),
        ("GET", "/data", None, Reason.LIST_PREFIX),
        ("POST", "/data?delete", b"no XML", Reason.DELETE_BODY),
        ("POST", "/data?delete", deletion("nowhere/", 200), Reason.LOCATION_UNOWNED),
        ("POST", "/data?delete", deletion("wh/t2/data/", 200), Reason.NO_REMOTE_SIGN),
    ),
)
async def test_a_refused_request_of_s3_is_forgotten(
    method: str, target: str, body: bytes | None, reason: Reason
) -> None:
    """The collector stops all callers for as long as it looks at what bulk deletes of unowned keys left."""
    async with opened(serving(b"content")) as door:
        client = await door.connect()
        await door.ask(method, target, body=body, client=client)
        with nothing_kept():
            for _ in range(MANY):
                answer = await door.ask(method, target, body=body, client=client)
                assert answer.status >= 400
        assert {event.reason for event in door.events()} == {reason.code}
        await client.close()


@pytest.mark.parametrize(
    "message",
    (
        sign_message("GET", "https://my-bucket.s3.us-west-2.amazonaws.com/elsewhere/f"),
        sign_message("GET", "https://other.s3.us-west-2.amazonaws.com/wh/t1/f"),
        {**sign_message("POST", "https://my-bucket.s3.us-west-2.amazonaws.com/?delete"), "body": "no XML"},
        {**sign_message("POST", "https://my-bucket.s3.us-west-2.amazonaws.com/?delete"), "body": "<Delete/>"},
        {"method": "GET"},
    ),
    ids=("unowned", "bucket", "no XML", "empty", "cut"),
)
async def test_a_refused_sign_request_is_forgotten(serve_product: ServeProduct, message: dict[str, object]) -> None:
    """What one caller is refused would slow down the signatures of all others."""
    product = await serve_product(Product())
    body = msgspec.json.encode(message)
    await product.call("POST", SIGN_T1, body=body)
    with nothing_kept():
        for _ in range(MANY):
            status, _, _ = await product.call("POST", SIGN_T1, body=body)
            assert status >= 400


def test_a_refusal_that_is_raised_for_a_kept_one_says_the_same() -> None:
    """The client would read other words than those that name its fault."""
    kept = Worded(Reason.DELETE_BODY, "it names a version", code="InvalidArgument", detail="VersionId of key 'a'")
    again = anew(kept)
    assert type(again) is Worded
    assert (again.reason, again.detail, again.words, again.code) == (kept.reason, kept.detail, kept.words, kept.code)
    assert again is not kept
    assert again.__traceback__ is None

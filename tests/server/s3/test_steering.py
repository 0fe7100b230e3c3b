"""A bulk delete that the signer cannot judge is led to where it can be, and gains nothing by it."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec
import pytest

from signproxy.errors import Reason
from signproxy.server.process.build import emulated_keys
from signproxy.signing.steering import Steering
from tests.forward.upstream import serving
from tests.product import sign_message
from tests.server.s3.door import Answer, Door, answer_of, opened, request
from tests.server.s3.test_handler import deletion

TABLE = "/s3-sign/v1/lake/namespaces/ns/tables/t1"
ANY = "/v1/aws/s3/sign"


def steering(door: Door) -> Steering:
    keys = emulated_keys(door.settings.s3, door.seals, door.product.authenticator)
    assert keys is not None
    return Steering(keys, f"http://{door.address}")


async def ask(door: Door, route: str, who: str = "writer", **headers: str) -> tuple[int, dict[str, object]]:
    """Ask the signer for a bulk delete as PyIceberg does: without its body."""
    uri = f"http://127.0.0.1:{door.upstream.port}/data?delete"
    message = sign_message("POST", uri, headers, region="us-east-1")
    status, _, answer = await door.product.call("POST", route, who=who, body=msgspec.json.encode(message))
    return status, answer


async def follow(door: Door, answer: dict[str, object], body: bytes, **headers: str) -> Answer:
    """Send the request as the answer says."""
    steered = {name: values[0] for name, values in answer["headers"].items()}  # type: ignore[attr-defined]
    parts = urlsplit(str(answer["uri"]))
    assert parts.netloc == door.address
    client = await door.connect()
    lines = {"Host": parts.netloc, **headers, **steered}
    await client.send(request("POST", f"{parts.path}?{parts.query}", who=None, headers=lines, body=body))
    try:
        return await answer_of(client)
    finally:
        await client.close()


@pytest.mark.parametrize("route", (TABLE, ANY))
async def test_a_bulk_delete_without_its_body_is_led_to_the_listener(route: str) -> None:
    """PyIceberg could delete nothing at all."""
    async with opened(serving(b"<DeleteResult/>")) as door:
        assert (await ask(door, route))[0] == Reason.DELETE_WITHOUT_BODY.status
        door.product.sign_by(steering=steering(door))
        status, answer = await ask(door, route, **{"x-amz-checksum-algorithm": "CRC32"})
        assert status == 200
        body = deletion("wh/t1/data/a")
        done = await follow(door, answer, body, **{"x-amz-checksum-algorithm": "CRC32"})
        assert done.status == 200
        # Written anew from the judged keys.
        sent = door.upstream.requests[0].body
        assert sent == body.replace(b"<Delete>", b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">')
        refused, led, forwarded = door.events()
        assert (refused.reason, led.reason, led.kind.value) == ("delete_without_body", "allowed", "sign")
        assert (forwarded.kind.value, forwarded.s3_op, forwarded.table) == ("forward", "DeleteObjects", "t1")


async def test_what_was_led_there_is_judged_there() -> None:
    """A caller that may ask the signer could delete anything by the way around it."""
    async with opened(serving(b"<DeleteResult/>")) as door:
        door.product.sign_by(steering=steering(door))
        assert (await ask(door, TABLE, "nobody"))[0] == 403
        for who, key in (("writer", "wh/t2/data/a"), ("reader", "wh/t1/data/a")):
            status, answer = await ask(door, TABLE, who)
            assert status == 200
            assert (await follow(door, answer, deletion(key))).status == 403
        assert not door.upstream.requests


async def test_the_signature_is_good_for_nothing_else() -> None:
    """It would open other objects, or another operation, for as long as it lives."""
    async with opened(serving(b"<DeleteResult/>")) as door:
        door.product.sign_by(steering=steering(door))
        _, answer = await ask(door, TABLE)
        uri = str(answer["uri"])
        for changed in (uri.replace("/data", "/other"), uri.replace("?delete", "?delete&versionId=1")):
            refused = await follow(door, {**answer, "uri": changed}, deletion("wh/t1/data/a"))
            assert (refused.status, refused.code) == (403, "SignatureDoesNotMatch")
        added = await follow(door, answer, deletion("wh/t1/data/a"), **{"x-amz-bypass-governance-retention": "true"})
        assert (added.status, added.code) == (403, "AccessDenied")


async def test_other_refusals_stay_what_they_are() -> None:
    """A switch for bulk deletes would be one for everything."""
    async with opened() as door:
        door.product.sign_by(steering=steering(door))
        uri = f"http://127.0.0.1:{door.upstream.port}/elsewhere?delete"
        message = sign_message("POST", uri, region="us-east-1")
        status, _, _ = await door.product.call("POST", TABLE, who="writer", body=msgspec.json.encode(message))
        assert status == Reason.ENDPOINT_UNKNOWN.status


async def test_a_fault_while_it_is_led_is_answered_and_recorded(capfd: pytest.CaptureFixture[str]) -> None:
    """The client would wait for an answer that never comes, and no event would tell of it."""

    class Broken:
        def steer(self, *_: object) -> None:
            raise ZeroDivisionError

    async with opened() as door:
        door.product.sign_by(steering=Broken())
        assert (await ask(door, TABLE))[0] == Reason.INTERNAL.status
        assert door.event.reason == "internal"
    assert "ZeroDivisionError" in capfd.readouterr().err

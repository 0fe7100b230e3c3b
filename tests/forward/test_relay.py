"""Answers that are changed are long work: one of them at a time, and none before it is paid for."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from signproxy.errors import Reason, Refused
from signproxy.forward.relay import in_turn
from signproxy.gate import turns
from signproxy.gate.turns import one_at_a_time
from signproxy.s3.operation import Operation
from signproxy.s3.xml_document import PIECE
from tests.forward.rig import Rig, Story, connected, request, serving_rig, storage
from tests.forward.upstream import Upstream, serving


def _work(name: str, told: list[str]) -> Generator[None, None, str]:
    for _ in range(3):
        told.append(name)
        yield
    return name


async def test_long_answers_are_changed_one_at_a_time_and_short_ones_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the loop would be as long as there are lists, or a small answer would wait for all of them."""
    monkeypatch.setattr(turns, "LONGEST", 0.0)
    told = list[str]()
    sizes = {"a": PIECE + 1, "b": PIECE + 1, "c": PIECE}
    done = await asyncio.gather(*[in_turn(_work(name, told), size) for name, size in sizes.items()])
    assert done == ["a", "b", "c"]
    assert [name for name in told if name != "c"] == ["a"] * 3 + ["b"] * 3
    assert told.index("c") < 3
    assert not one_at_a_time().locked()


@pytest.mark.parametrize(
    ("operation", "charged"),
    (
        (Operation.LIST_MULTIPART_UPLOADS, True),
        (Operation.LIST_PARTS, True),
        # It is begun: a client that is not told of it can neither complete nor abort it.
        (Operation.CREATE_MULTIPART_UPLOAD, False),
    ),
)
async def test_a_list_is_charged_before_it_is_read_and_a_begun_upload_is_told_of(
    operation: Operation, charged: bool
) -> None:
    """A thousand uploads would be read and marked for a caller that owes too much already."""
    document = b"<R><UploadId>a</UploadId></R>"
    told: list[bytes] = []

    def charge(found: bytes) -> None:
        told.append(found)
        raise Refused(Reason.RATE_LIMITED, "1.000 s early")

    async with Upstream(serving(document)) as store, serving_rig(Rig(storage(store.port))) as rig:
        rig.charge = charge
        rig.story = Story(operation=operation)
        async with connected(rig) as client:
            await client.send(request())
            head, body = await client.answer()
        await rig.settled()
        assert told == ([document] if charged else [])
        if charged:
            assert (head[:12], body) == (b"HTTP/1.1 599", b"rate_limited")
            assert rig.refusals[0].reason is Reason.RATE_LIMITED
        else:
            assert head.startswith(b"HTTP/1.1 200 ")

"""The bodies of requests: how large they may be, how long they may take, and what becomes of one that ends early."""

from __future__ import annotations

import asyncio
import io

import msgspec
import pytest

from signproxy.answers.bodies import MAX_BULK_MESSAGE, MAX_MESSAGE
from signproxy.errors import Reason, Refused
from signproxy.signing import sign_way
from signproxy.signing.sign_way import read_message
from tests.product import HOST, SIGN_T1, Product, sign_message, token_of
from tests.waiting import until


def _message_of(size: int, *, body: str | None = None) -> bytes:
    """Return a sign request of exactly this many bytes; the padding is an unknown field."""
    fields = sign_message("POST", f"{HOST}?delete", body=body, padding="")
    raw = msgspec.json.encode(fields)
    return msgspec.json.encode({**fields, "padding": "x" * (size - len(raw))})


def test_a_sign_request_has_64_kib() -> None:
    """A sign request carries no object; one that is larger is a mistake or an attack."""
    assert MAX_MESSAGE == 64 * 1024
    assert read_message(_message_of(MAX_MESSAGE)).method == "POST"
    with pytest.raises(Refused) as refused:
        read_message(_message_of(MAX_MESSAGE + 1))
    assert refused.value.reason is Reason.BODY_TOO_LARGE


def test_a_bulk_delete_may_be_larger_by_its_body() -> None:
    """A thousand keys of a thousand bytes, as JSON may escape them."""
    body = "<Delete>" + "x" * 200_000 + "</Delete>"
    assert read_message(_message_of(MAX_MESSAGE + 200_000, body=body)).body == body
    with pytest.raises(Refused):
        read_message(_message_of(MAX_MESSAGE + 6 * 210_000, body=body))


async def test_an_oversized_message_is_a_413_announced_or_not() -> None:
    """A client that streams megabytes must be stopped while it does."""
    async with Product().running() as product:
        huge = io.BytesIO(b"x" * (MAX_BULK_MESSAGE + 1))
        assert (await product.call("POST", SIGN_T1, body=huge))[0] == 413  # type: ignore[arg-type]  # a file

        async def chunks() -> object:
            for _ in range(6):
                yield b"x" * (1024 * 1024)

        status, _, answer = await product.call("POST", SIGN_T1, body=chunks())  # type: ignore[arg-type]  # streamed
        assert (status, answer["error"]["type"], answer["error"]["code"]) == (413, "PayloadTooLarge", 413)
        assert [event.reason for event in product.events()] == ["body_too_large"] * 2


async def test_a_chunked_message_is_read() -> None:
    """Some HTTP clients never send a length."""
    raw = msgspec.json.encode(sign_message())

    async def chunks() -> object:
        for start in range(0, len(raw), 10):
            yield raw[start : start + 10]
            await asyncio.sleep(0)

    async with Product().running() as product:
        assert (await product.call("POST", SIGN_T1, body=chunks()))[0] == 200  # type: ignore[arg-type]  # streamed


async def test_a_body_that_does_not_arrive_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand callers that send half a body each would hold a thousand requests for ever."""
    monkeypatch.setattr(sign_way, "BODY_TIMEOUT", 0.05)
    async with Product().running() as product:
        reader, writer = await product.opened()
        writer.write(
            f"POST {SIGN_T1} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of('reader')}\r\n"
            "Content-Length: 100\r\n\r\n{".encode()
        )
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        assert head.startswith(b"HTTP/1.1 400 ")
        assert b"Connection: close" in head
        writer.close()
        assert product.events()[0].reason == "body_timeout"


async def test_a_caller_who_leaves_is_recorded_once() -> None:
    """A request that is not waited for still happened."""
    async with Product().running() as product:
        _, writer = await product.opened()
        writer.write(
            f"POST {SIGN_T1} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of('reader')}\r\n"
            "Content-Length: 100\r\n\r\n{".encode()
        )
        await writer.drain()
        await until(lambda: product.handler.in_flight == 1)
        writer.transport.abort()
        await until(lambda: product.trail.state.written)
        assert [(event.reason, event.decision.value) for event in product.events()] == [("client_gone", "error")]

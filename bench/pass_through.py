"""Be a catalog with one large table, and the plainest proxy in front of it: the scenery and the floor of the facade."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import uvloop
from aiohttp import ClientSession, web

from bench.load import Signer
from bench.process import LOAD_CORE, SERVER_CORE, answers, free_port, running, wait_until

_CHUNK = 256 * 1024


@contextlib.contextmanager
def upstream(answer: bytes, scratch: Path) -> Iterator[str]:
    """Run a catalog that answers every load with these bytes; yield its URL."""
    content = scratch / "answer.json"
    content.write_bytes(answer)
    url = f"http://127.0.0.1:{free_port()}"
    log = scratch / "upstream.log"
    command = [sys.executable, "-m", "bench.pass_through", "catalog", url, str(content)]
    with running(command, core=LOAD_CORE, log=log) as process:
        wait_until(lambda: answers(f"{url}/v1/config"), process, log)
        yield url


@contextlib.contextmanager
def pass_through(to: str, path: str, token: str, scratch: Path) -> Iterator[Signer]:
    """Run the plainest proxy in front of a catalog, as what is loaded."""
    url = f"http://127.0.0.1:{free_port()}"
    log = scratch / "pass-through.log"
    with running([sys.executable, "-m", "bench.pass_through", "proxy", url, to], core=SERVER_CORE, log=log) as process:
        wait_until(lambda: answers(f"{url}/v1/config"), process, log)
        yield Signer("pass-through", f"{url}{path}", (process.pid,), "", token)


def _catalog(answer: bytes) -> web.Application:
    config = json.dumps({"defaults": {}, "overrides": {}}).encode()

    async def load(_: web.Request) -> web.Response:
        return web.Response(body=answer, content_type="application/json")

    async def configure(_: web.Request) -> web.Response:
        return web.Response(body=config, content_type="application/json")

    app = web.Application()
    app.router.add_get("/v1/config", configure)
    app.router.add_get("/v1/{tail:.*}", load)
    app.router.add_post("/v1/{tail:.*}", load)
    return app


async def _proxy(to: str) -> web.Application:
    session = ClientSession(auto_decompress=False)

    async def handle(request: web.Request) -> web.StreamResponse:
        headers = {"Authorization": request.headers.get("Authorization", ""), "Accept": "application/json"}
        async with session.get(to + request.raw_path, headers=headers, allow_redirects=False) as answer:
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            response.content_length = answer.content_length
            await response.prepare(request)
            async for chunk in answer.content.iter_chunked(_CHUNK):
                await response.write(chunk)
            await response.write_eof()
            return response

    async def close(_: web.Application) -> None:
        await session.close()

    app = web.Application()
    app.router.add_get("/{tail:.*}", handle)
    app.on_cleanup.append(close)
    return app


def _read(name: str) -> bytes:
    return Path(name).read_bytes()


async def _serve(role: str, url: str, what: str) -> None:
    runner = web.AppRunner(_catalog(_read(what)) if role == "catalog" else await _proxy(what), access_log=None)
    await runner.setup()
    host, _, port = url.removeprefix("http://").partition(":")
    await web.TCPSite(runner, host, int(port)).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    # The loop that `serve` uses: both sides of the ratio stand on it.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as running_loop:
        running_loop.run(_serve(*sys.argv[1:]))

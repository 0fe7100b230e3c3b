"""Be the floor: an empty aiohttp application that reads the body and answers as many bytes as a signature has."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import uvloop
from aiohttp import web

from bench.load import Signer
from bench.process import SERVER_CORE, answers, free_port, running, wait_until


@contextlib.contextmanager
def floor(
    template: str,
    token: str,
    answer_bytes: int,
    scratch: Path,
    *,
    under: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator[Signer]:
    """Run the empty application; it gets the same requests as the signers, and answers as many bytes."""
    url = f"http://127.0.0.1:{free_port()}/sign"
    log = scratch / "floor.log"
    command = [*under, sys.executable, "-m", "bench.floor", url.partition("//")[2].partition("/")[0], str(answer_bytes)]
    with running(command, core=SERVER_CORE, log=log, env=env) as process:
        wait_until(lambda: answers(url), process, log)
        yield Signer("floor", url, (process.pid,), template, token)


async def _serve(authority: str, answer_bytes: int) -> None:
    content = b'{"uri":"' + b"k" * (answer_bytes - 10) + b'"}'

    async def sign(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=content, content_type="application/json")

    app = web.Application()
    app.router.add_post("/sign", sign)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    host, _, port = authority.partition(":")
    await web.TCPSite(runner, host, int(port)).start()
    await asyncio.Event().wait()


def main() -> None:
    """Serve on the authority that the command line names until the process is ended."""
    # The loop that `serve` uses: both sides of the ratio stand on it.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(sys.argv[1], int(sys.argv[2])))


if __name__ == "__main__":
    main()

"""Run store, policy and server together: `signproxy demo`."""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from signproxy.demo import world
from signproxy.demo.store import DemoStore, DemoStoreFailed, HttpAnswer, end_process, send, send_as_owner
from signproxy.errors import Finding, Invalid

READY_SECONDS = 20.0
STOP_SECONDS = 10.0
_CONTENT = b"id,amount\n1,42\n"
_OBJECT = f"{world.LOCATION}/data/part-0.csv"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the port and how long to stay."""
    parser.add_argument("--port", type=int, default=8181, help="port of signproxy; a free one if it is taken")
    parser.add_argument("--once", action="store_true", help="end after the first requests instead of staying up")


def run(options: argparse.Namespace) -> int:
    """Run until Ctrl-C or SIGTERM."""
    try:
        return asyncio.run(_demo(options.port, stay=not options.once))
    except DemoStoreFailed as failed:
        raise Invalid([Finding("", "demo", str(failed))]) from None


async def _demo(port: int, *, stay: bool) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with tempfile.TemporaryDirectory(prefix="signproxy-demo-") as name:
        directory = Path(name)
        _title("1. An S3 store that verifies signatures (SeaweedFS), on loopback, with keys that no client gets")
        async with DemoStore(directory / "store") as store:
            print(f"   {store.endpoint}, bucket {world.BUCKET}")
            await asyncio.to_thread(_arrange, store)
            files = world.write_world(directory, store, _free_port(port), _free_port(0))
            _title("2. signproxy, with three tokens: alice reads sales.orders, etl writes it, guest may do nothing")
            server = await asyncio.create_subprocess_exec(
                *_signproxy("serve", "--config", str(files.settings), "--log-level", "warning"), start_new_session=True
            )
            try:
                await _until_ready(files.url, server)
                print(f"   {files.url}, settings, policy and audit trail in {directory}")
                good = await asyncio.to_thread(_walk, store, files)
                if stay and good:
                    _invite(store, files)
                    ended = asyncio.create_task(server.wait())
                    await asyncio.wait([asyncio.create_task(stop.wait()), ended], return_when=asyncio.FIRST_COMPLETED)
            finally:
                await end_process(server, STOP_SECONDS)
    print("\nEnded; nothing is left behind.")
    return 0 if good else 1


def _arrange(store: DemoStore) -> None:
    for path, body in (
        (f"/{world.BUCKET}", b""),
        (f"/{world.BUCKET}/{world.NEIGHBOUR}/data/part-0.csv", b"a neighbour's secret\n"),
    ):
        answer = send_as_owner(store, "PUT", path, body)
        if answer.status != 200:
            raise DemoStoreFailed(f"the store answered {answer.status} to PUT {path}: {answer.body.decode()}")


def _walk(store: DemoStore, files: world.World) -> bool:
    """Send the first requests, showing each; return whether all went as the policy says."""
    own = f"{store.endpoint}/{world.BUCKET}/{_OBJECT}"
    neighbour = f"{store.endpoint}/{world.BUCKET}/{world.NEIGHBOUR}/data/part-0.csv"
    _title("3. etl writes an object: signproxy signs, the store is asked directly")
    written = _signed(files, "etl", "PUT", own, _CONTENT)
    _title("4. alice reads it")
    read = _signed(files, "alice", "GET", own)
    _title("5. alice asks for what she may not have")
    refused = [
        _signed(files, "alice", "PUT", own, b"overwritten"),
        _signed(files, "alice", "GET", neighbour),
        _signed(files, "guest", "GET", own),
    ]
    _title("6. Why? The operator asks the same code that refused")
    explained = _explain(files, own)
    return (
        (written.status, read.status, read.body) == (200, 200, _CONTENT)
        and [answer.status for answer in refused] == [403, 403, 403]
        and explained
    )


def _signed(files: world.World, who: str, method: str, uri: str, body: bytes | None = None) -> HttpAnswer:
    """Have a request signed and send it; show both steps."""
    message = json.dumps({"region": "us-east-1", "method": method, "uri": uri, "headers": {}})
    answer = send("POST", _sign_url(files), {"Authorization": f"Bearer {files.tokens[who]}"}, message.encode())
    print(f"   {who}: sign {method} {uri}\n   -> {answer.status}", end=" ")
    if answer.status != 200:
        print(json.loads(answer.body)["error"]["message"])
        return answer
    signed = json.loads(answer.body)
    headers = {name: values[0] for name, values in signed["headers"].items()}
    print(headers["Authorization"][:110] + "...")
    print(f"   {who}: {method} {signed['uri']}")
    served = send(method, signed["uri"], headers, body)
    print(f"   -> {served.status} {served.body.decode(errors='replace').strip()!r}")
    if method == "GET":
        print("   as a line of yours, good for 15 minutes:")
        # curl leaves out a header without a value unless it ends with a semicolon.
        spelled = [f"{name}: {value}" if value else f"{name};" for name, value in headers.items()]
        lines = " ".join(f"-H {shlex.quote(header)}" for header in spelled)
        print(f"   curl {lines} {shlex.quote(signed['uri'])}")
    return served


def _explain(files: world.World, uri: str) -> bool:
    words = ["explain", "--config", str(files.settings), "--principal", "static/alice", "--catalog", world.CATALOG]
    words += ["--namespace", world.NAMESPACE, "--table", world.TABLE, "--method", "PUT", "--uri", uri]
    print(f"   signproxy {shlex.join(words)}\n")
    sys.stdout.flush()
    # 3: the request is denied, as it has to be
    return subprocess.run(_signproxy(*words), check=False).returncode == 3  # noqa: S603 - our own command


def _invite(store: DemoStore, files: world.World) -> None:
    _title("Your turn: ask for a signature")
    uri = f"{store.endpoint}/{world.BUCKET}/{_OBJECT}"
    message = json.dumps({"region": "us-east-1", "method": "GET", "uri": uri, "headers": {}})
    bearer = shlex.quote(f"Authorization: Bearer {files.tokens['alice']}")
    print(f"   curl -s -H {bearer} \\")
    print(f"     {_sign_url(files)} -d {shlex.quote(message)}")
    _title("or let PyIceberg or Spark do it: s3.signer.uri, s3.signer.endpoint and token are")
    print(f"   {files.url}/   {_sign_url(files).removeprefix(files.url + '/')}   {files.tokens['alice']}")
    _title("and see who did what")
    print(f"   tail -f {files.audit}")
    print("\nCtrl-C ends everything.", flush=True)


def _sign_url(files: world.World) -> str:
    return f"{files.url}/s3-sign/v1/{world.CATALOG}/namespaces/{world.NAMESPACE}/tables/{world.TABLE}"


async def _until_ready(url: str, server: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(READY_SECONDS):
            while not await asyncio.to_thread(_listens, url):
                if server.returncode is not None:
                    raise DemoStoreFailed(f"signproxy ended with {server.returncode} while starting")
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise DemoStoreFailed(f"signproxy was not ready after {READY_SECONDS:.0f} s") from None


def _listens(url: str) -> bool:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def _signproxy(*words: str) -> list[str]:
    return [sys.executable, "-m", "signproxy", *words]


def _free_port(wanted: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _title(text: str) -> None:
    print(f"\n== {text}", flush=True)

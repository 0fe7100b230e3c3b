"""Count the instructions of one request in user space: exact to a thousandth, whatever else the machine does.

They show how the code grew, and not what it costs: how long an instruction takes, and what the kernel does, is in the
suites that measure processor time. A gate stands on both.
"""

from __future__ import annotations

import contextlib
import platform
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from bench import load, sign_request
from bench.callgrind import FEW, MANY, Count, Counting, Plan
from bench.effort import Effort
from bench.facade import LOAD_PATH, load_answer, put_in_front
from bench.figures import Result, result
from bench.floor import floor
from bench.forward_scene import LAKE, VAULT, Store, headers, key_of, small_target, stores
from bench.forward_serve import forwarding
from bench.pass_through import upstream
from bench.serve import deploy
from bench.sign_request import COUNTER
from bench.small_store import small_store

_RANGE = 4 * 1024 * 1024
"""Of a large object: 4 MiB are some 260 records of TLS."""

_NOT_OF_A_NAME = re.compile(r"[^A-Za-z0-9]+")

_ANSWER = 910
"""Bytes of a signature's answer."""

_TABLE_BYTES = 4096
"""Of the upstream's answer: small enough to arrive in one piece."""

_SHARES = 4
"""Libraries that a profile tells of; all others together are the rest."""

TREE = Path(__file__).parent.parent
"""The working tree."""


def measure(_effort: Effort) -> list[Result]:
    """Count one request of each kind. How they compare with another commit's, `bench.growth` says."""
    return rows({name: counted(name, TREE) for name in _TARGETS})


def counted(name: str, tree: Path) -> Count:
    """Count a request of this name to what a directory holds."""
    with tempfile.TemporaryDirectory(prefix="signproxy-bench-") as directory:
        return _TARGETS[name](Counting(Path(directory), tree))


def rows(now: Mapping[str, Count]) -> list[Result]:
    """Return the rows: counts, the ratio to the floor, and where the instructions are."""
    found: list[Result] = []
    words = f"of all threads, one connection, Python {platform.python_version()}"
    for name, count in now.items():
        found.append(_row(name, count.per_request, unit="instr", against=f"{_WORDS[name]}; {words}"))
        if name == "sign":
            over = count.per_request / now["floor"].per_request
            found.append(_row("sign_vs_floor", over, against=f"an empty aiohttp application; {words}"))
    for name, count in now.items():
        if name == "floor":
            continue
        largest = Counter(count.by_library).most_common(_SHARES)
        rest = count.instructions - sum(size for _, size in largest)
        for library, size in (*largest, ("rest", rest)):
            share, row = 100 * size / count.instructions, f"profile_{name}_{_NOT_OF_A_NAME.sub('_', library)}"
            found.append(_row(row, share, unit="%", against=f"instructions of {_WORDS[name]} in {library}"))
    return found


def _row(name: str, value: float, *, unit: str = "ratio", against: str) -> Result:
    return result(f"instructions.{name}", [value], unit=unit, better="lower", against=against)


# -- what is counted ---------------------------------------------------------------------------------------------------


def _floor(counting: Counting) -> Count:
    with deploy() as deployment:
        asked = deployment.signer(())
        with floor(
            asked.template, asked.token, _ANSWER, deployment.directory, under=counting.command, env=counting.environment
        ) as plain:
            return counting.requests(plain.pids[0], _port(plain), partial(_sign_request, plain))


def _sign(counting: Counting) -> Count:
    with deploy() as deployment, deployment.serve(under=counting.command, env=counting.environment) as signer:
        return counting.requests(signer.pids[0], _port(signer), partial(_sign_request, signer))


def _get(counting: Counting) -> Count:
    return _forwarded(counting, small_target(), MANY)


def _get_tls(counting: Counting) -> Count:
    target = f"/{VAULT}/{key_of(VAULT, f'part-{COUNTER}.large')}"
    return _forwarded(counting, target, FEW, ("Range", f"bytes=0-{_RANGE - 1}"))


def _get_ordinary(counting: Counting) -> Count:
    # No request is a precedent for others in a folder whose name has an equals sign.
    target = f"/{LAKE}/{key_of(LAKE, f'day=2026-11-20/00007-{COUNTER}-0-00001.parquet')}"
    return _forwarded(counting, target, MANY, of=small_store)


def _load_table(counting: Counting) -> Count:
    with contextlib.ExitStack() as stack:
        deployment = stack.enter_context(deploy())
        put_in_front(deployment, stack.enter_context(upstream(load_answer(_TABLE_BYTES), counting.directory)))
        served = stack.enter_context(deployment.serve(under=counting.command, env=counting.environment))
        lines = (
            f"GET {LOAD_PATH} HTTP/1.1",
            f"Host: 127.0.0.1:{deployment.port}",
            f"Authorization: Bearer {served.token}",
            *("Accept: application/json", "X-Iceberg-Access-Delegation: remote-signing", "", ""),
        )
        return counting.requests(served.pids[0], deployment.port, partial(_numbered, "\r\n".join(lines)))


def _forwarded(
    counting: Counting,
    target: str,
    plan: Plan,
    *more: tuple[str, str],
    of: Callable[[Path], AbstractContextManager[Store]] = stores,
) -> Count:
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(of(counting.directory))
        served = stack.enter_context(forwarding(store, under=counting.command, env=counting.environment))
        proxy = served.proxy
        lines = "".join(f"{field}: {value}\r\n" for field, value in headers(proxy, *more))
        head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\n{lines}\r\n"
        return counting.requests(proxy.pids[0], proxy.port, partial(_numbered, head), plan)


_TARGETS: Mapping[str, Callable[[Counting], Count]] = {
    "floor": _floor,
    "sign": _sign,
    "get": _get,
    "get_tls": _get_tls,
    "get_ordinary": _get_ordinary,
    "load_table": _load_table,
}
_WORDS = {
    "floor": "a request to an empty aiohttp application",
    "sign": "a signature",
    "get": "a GET of 4 KiB",
    "get_tls": "a GET of 4 MiB from a store over TLS",
    "get_ordinary": "a GET of 4 KiB that no earlier one speaks for",
    "load_table": "a load of a table through the facade",
}


def _numbered(template: str, number: int) -> bytes:
    return template.replace(COUNTER, f"{number:0{len(COUNTER)}d}").encode()


def _sign_request(signer: load.Signer, number: int) -> bytes:
    body = sign_request.body(signer.template, number)
    target = urlsplit(signer.url)
    lines = (
        *(f"POST {target.path} HTTP/1.1", f"Host: {target.netloc}", "Content-Type: application/json"),
        *(f"Content-Length: {len(body)}", f"Authorization: Bearer {signer.token}", "", ""),
    )
    return "\r\n".join(lines).encode() + body


def _port(signer: load.Signer) -> int:
    port = urlsplit(signer.url).port
    assert port is not None
    return port

"""Callers within their share, beside one that asks for all it can get and beside a flood without a token."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import statistics
import subprocess
import sys
import time

import pytest
import yaml

from tests.product import sign_message, token_of
from tests.server.process.served import POLICY, Served, Start, serve
from tests.server.talk import Talk, request

__all__ = ["serve"]

CALLERS = ("one", "two", "three")
GREEDY = "greedy"
SHARE = 100
STRANGERS = 10
CONNECTIONS = 32
SECONDS = 0.8

TOO_MUCH = 8.0
"""What a median may grow by on a busy machine. Where nothing is limited it grows by as many requests as there are
connections; `bench/fairness.py` measures how little it does grow."""

_BODY = json.dumps(sign_message("GET", "http://127.0.0.1:9/lake/t/f", region="us-east-1")).encode()
_PATH = "/v1/aws/s3/sign"

_FLOOD = """
import asyncio, collections, json, sys, time
address, request, connections, seconds = sys.argv[1], bytes.fromhex(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
counts = collections.Counter()
async def ask(until):
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection(*address.rsplit(":", 1))
        try:
            while time.monotonic() < until:
                writer.write(request)
                head = await asyncio.wait_for(reader.readuntil(b"\\r\\n\\r\\n"), until + 5 - time.monotonic())
                length = int(head.split(b"Content-Length: ")[1].split(b"\\r\\n")[0])
                await reader.readexactly(length)
                counts[int(head[9:12])] += 1
                if b"Connection: close" in head:
                    break
        except (OSError, EOFError):
            counts[0] += 1
        finally:
            writer.close()
async def flood():
    until = time.monotonic() + seconds
    await asyncio.gather(*[ask(until) for _ in range(connections)])
asyncio.run(flood())
print(json.dumps(counts))
"""


@pytest.fixture
def crowded(serve: Start) -> Served:
    """A server with several principals, each with a small share; the shares came with a reload."""
    served = serve("--set", "reload.poll_seconds=0")
    served.wait_for("serving")
    policy = yaml.safe_load(POLICY)
    policy["principals"] = {name: {"roles": ["readers"]} for name in (*CALLERS, GREEDY)}
    served.policy.write_text(yaml.safe_dump(policy))
    settings = json.loads(served.settings.read_text())
    settings["identity"]["static_tokens"] = [
        {"sha256": hashlib.sha256(token_of(name).encode()).hexdigest(), "principal": name}
        for name in (*CALLERS, GREEDY)
    ]
    settings["limits"] = {"requests_per_second": SHARE, "burst": SHARE, "unauthenticated_per_second": STRANGERS}
    served.settings.write_text(json.dumps(settings))
    served.process.send_signal(signal.SIGHUP)
    served.wait_for("reload accepted")
    return served


def _request(who: str | None, *more: str) -> bytes:
    return request(who, *more, body=_BODY, path=_PATH)


async def _ask(address: str, seconds: float) -> list[float]:
    """Let each caller ask at a modest rate for so long; return how long each answer took."""
    talks = {name: await Talk.with_(address) for name in CALLERS}
    waits = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for name, talk in talks.items():
            began = time.perf_counter()
            assert (await talk.ask(_request(name))).status == 200
            waits.append(time.perf_counter() - began)
            await asyncio.sleep(0.01)
    for talk in talks.values():
        await talk.close()
    return waits


def _beside(served: Served, flood: bytes | None) -> tuple[float, dict[str, int]]:
    """Return the callers' median wait beside a flood of such requests, and how those were answered, by status."""
    address = served.wait_for("serving")["address"]
    if flood is None:
        return statistics.median(asyncio.run(_ask(address, SECONDS / 2))), {}
    command = [sys.executable, "-c", _FLOOD, address, flood.hex(), str(CONNECTIONS), str(SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as crowd:
        time.sleep(SECONDS / 4)
        waits = asyncio.run(_ask(address, SECONDS / 2))
        counts, _ = crowd.communicate(timeout=60)
    return statistics.median(waits), {str(status): count for status, count in json.loads(counts).items()}


def _most(rate: float) -> float:
    """Return how many answers a flood may get at a rate: those, and one held back for each connection now and then."""
    return rate * (SECONDS + 2) + CONNECTIONS * (2 * SECONDS + 2)


_FLOODS = {
    "a principal": (_request(GREEDY), SHARE),
    "strangers": (_request(None), STRANGERS),
    "strangers, parsed": (_request(None, "x-a: b"), STRANGERS),
    "strangers, a connection each": (_request(None, "Connection: close"), STRANGERS),
    "made-up tokens": (_request("nobody"), STRANGERS),
    "no HTTP": (b"\x16\x03\x01\r\n\r\n", STRANGERS),
}


@pytest.mark.parametrize("flood", _FLOODS)
def test_callers_within_their_share_do_not_notice_who_asks_for_more(crowded: Served, flood: str) -> None:
    """One job that runs wild, or any client that reaches the port, would stand in the way of all others."""
    data, rate = _FLOODS[flood]
    before, _ = _beside(crowded, None)
    beside, counts = _beside(crowded, data)
    after, _ = _beside(crowded, None)
    # The flood came through, and was held to its rate.
    assert 0 < sum(counts.values()) <= _most(rate)
    assert "0" not in counts
    assert beside <= TOO_MUCH * max(before, after)
    assert crowded.stop() == 0
    refusals = [event for event in crowded.events() if event["decision"] != "allow"]
    # Sixty of strangers, five of a caller, and the counts.
    assert len(refusals) <= 70
    refused = sum(count for status, count in counts.items() if status != "200")
    if flood != "no HTTP":
        # Whose answer was under way when the flood ended was recorded as well.
        assert refused <= sum(event.get("count", 1) for event in refusals) <= refused + CONNECTIONS

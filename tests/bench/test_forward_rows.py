"""Hold what is asked of the transparent mode: the loads that are sent, and the bars that are set."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench import forward_large, forward_memory, forward_small
from bench.forward_large import CELLS
from bench.forward_scene import LAKE, SINK, TABLES, VAULT, Proxy, get, headers, key_of, put, small_target
from bench.forward_serve import IssuedKey
from bench.forward_small_load import SIGNATURE, plain, sign
from bench.forward_streams import Moved
from bench.load import Burst
from bench.policy_files import REGION, location_of
from bench.sign_request import COUNTER
from tests.verifier import VerificationError, WireHttp, verify

_PROXY = Proxy("signproxy", 8182, (), "the-token")
_PEER = Proxy("nginx", 8183, ())
_KEY = IssuedKey("SPK1ABCDEFGHIJKLMNOP", "a" * 40, "spk1.sealed")


def _wire(head: str) -> WireHttp:
    first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    fields = (line.partition(": ") for line in lines)
    return WireHttp(method, target, tuple((name, value) for name, _, value in fields))


def _numbered(head: str, signatures: str, number: int) -> str:
    """Return what forward.lua makes of a head."""
    width = len(SIGNATURE)
    own = signatures[number * width : (number + 1) * width]
    # The number first, as the zeros of the signature would be taken for it.
    return head.replace(SIGNATURE, "<signature>").replace(COUNTER, f"{number:012d}").replace("<signature>", own)


@pytest.mark.parametrize("number", (0, 1, 4))
def test_each_request_signed_in_advance_carries_its_own_signature(number: int) -> None:
    """A signature of another name would be refused, and one name for all would need one verification."""
    head, signatures = sign(_KEY, _PROXY, int(time.time()), 5)
    assert len(signatures) == 5 * len(SIGNATURE)
    wire = _wire(_numbered(head, signatures, number))
    assert f"-{number:012d}-" in wire.target
    verify(
        wire,
        {_KEY.access_key_id: _KEY.secret_access_key},
        now=time.time(),
        tokens={_KEY.access_key_id: _KEY.session_token},
        region=REGION,
    )


def test_the_signature_of_another_number_is_refused() -> None:
    """The verification above would pass for anything."""
    head, signatures = sign(_KEY, _PROXY, int(time.time()), 2)
    wrong = _numbered(head, signatures[64:] + signatures[:64], 0)
    with pytest.raises(VerificationError, match="SignatureDoesNotMatch"):
        verify(
            _wire(wrong),
            {_KEY.access_key_id: _KEY.secret_access_key},
            now=time.time(),
            tokens={_KEY.access_key_id: _KEY.session_token},
        )


def test_a_signed_request_shows_no_token() -> None:
    """Signproxy would take the bearer token, and verify no signature."""
    assert "the-token" not in sign(_KEY, _PROXY, int(time.time()), 1)[0]


def test_no_two_heads_are_alike(tmp_path: Path) -> None:
    """A proxy that remembers heads, or what follows their first line, would do well here and nowhere else."""
    head = plain(_PROXY, tmp_path).head.read_bytes().decode()
    first, _, rest = head.partition("\r\n")
    assert (first.count(COUNTER), rest.count(COUNTER)) == (1, 1)
    assert head.startswith(f"GET {small_target()} HTTP/1.1\r\nHost: 127.0.0.1:8182\r\n")
    assert head.endswith("Authorization: Bearer the-token\r\n\r\n")


def test_peers_are_sent_the_same_without_the_token() -> None:
    """Another head would be another load."""
    assert (*headers(_PEER), ("Authorization", "Bearer the-token")) == headers(_PROXY)


def test_files_lie_in_the_tables_that_the_policy_puts_there() -> None:
    """Everything would be refused, or everything be of one table."""
    assert len(set(TABLES.values())) == len(TABLES)
    for bucket in (LAKE, VAULT, SINK):
        assert key_of(bucket, "f") == f"{location_of(TABLES[bucket])}/data/f"


def test_what_is_declared_is_sent(tmp_path: Path) -> None:
    """A PUT that does not declare its hash has none to be verified."""
    body = tmp_path / "body"
    body.write_bytes(b"content")
    assert ("x-amz-content-sha256", "ab" * 32) in put(_PROXY, "part", body, "ab" * 32).headers
    assert b"\r\nContent-Length: 7\r\n" in put(_PROXY, "part", body).head(1)
    assert b"Content-Length" not in get(_PROXY, LAKE, "part").head(1)


def _moved(rate: float, cost: float) -> Moved:
    return Moved(1_000_000_000, 1 / rate, cost)


def _bars(name: str, rate: float, cost: float, others: tuple[float, float] = (1.0, 1.0)) -> dict[str, bool]:
    """Return which rows of a cell pass, by what they are against."""
    (cell,) = (cell for cell in CELLS if cell.name == name)
    taken = {"signproxy": [_moved(rate, cost)], "nginx": [_moved(1.0, 1.0)], "envoy": [_moved(*others)]}
    rows = forward_large.cell_rows(cell, taken)
    return {row.name.removeprefix(f"forward_large.{name}_"): row.passes for row in rows}


@pytest.mark.parametrize(
    ("name", "least"),
    (("get_c1", 0.85), ("get_c8", 0.85), ("get_tls_c1", 0.75), ("get_tls_c8", 0.75), ("put_c8", 1.0)),
)
def test_throughput_is_held_to_its_share_of_nginx(name: str, least: float) -> None:
    """Set for another cell, a bar would let a regression through."""
    slow_envoy = (0.1, 9.0)
    assert _bars(name, least, 1.0, slow_envoy)["rate_vs_nginx"]
    assert not _bars(name, least - 0.01, 1.0, slow_envoy)["rate_vs_nginx"]


@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_is_held_to_envoy_and_to_nginx_cost(cell: forward_large.Cell) -> None:
    """Being ahead in one cell would hide being behind in another."""
    ahead = _bars(cell.name, 1.0, 1.2, (1.0, 1.2))
    assert all(ahead.values())
    behind = _bars(cell.name, 1.0, 1.21, (1.01, 1.2))
    missed = {name for name, passes in behind.items() if not passes}
    assert missed == {"cpu_vs_nginx", "rate_vs_envoy", "cpu_vs_envoy"}


def _burst(requests: int, cpu_us: float) -> Burst:
    return Burst(requests, 1.0, requests * cpu_us / 1e6, 100.0, 200.0)


def test_both_ways_of_callers_are_held_to_the_same_bars() -> None:
    """Only the cheaper way would be judged, and the one that SDKs take be slow."""
    bursts = {
        "signproxy": [_burst(400, 73.0)],
        "signproxy_keys": [_burst(399, 75.0)],
        "nginx": [_burst(1000, 22.0)],
        "envoy": [_burst(600, 74.0)],
    }
    passed = {row.name.partition(".")[2]: row.passes for row in forward_small.rows(bursts, bursts)}
    assert passed["bearer_rate_vs_nginx"]
    assert passed["bearer_cpu_vs_envoy"]
    assert not passed["keys_rate_vs_nginx"]
    assert not passed["keys_cpu_vs_envoy"]


def test_memory_is_held_to_what_was_promised() -> None:
    """MiB taken for KiB would pass anything."""
    assert (forward_memory.MUST_KIB, forward_memory.GOAL_KIB, forward_memory.MUST_MIB) == (350, 150, 64)

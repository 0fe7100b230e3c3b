"""A short search on every run of the tests; `python -m tests.fuzz` goes on for as long as it is told."""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signproxy.errors import Reason
from tests.fuzz.__main__ import main
from tests.fuzz.harness import CHOICES, prefix_of, run
from tests.fuzz.mutate import mutate
from tests.fuzz.seeds import seeds

SEEDS = tuple(seeds())
_REFUSED_SEEDS = 3


def test_every_seed_is_what_it_is_meant_to_be() -> None:
    """A search that begins with refusals learns nothing about signatures."""
    outcomes = [run(seed) for seed in SEEDS]
    signed = len(SEEDS) - _REFUSED_SEEDS
    assert outcomes[:signed] == [Reason.ALLOWED] * signed
    assert Reason.ALLOWED not in outcomes[signed:]


def test_one_byte_names_every_caller_and_route() -> None:
    """A choice beyond a byte would never be tried."""
    assert len(CHOICES) <= 256
    assert {prefix_of(*choice)[0] for choice in CHOICES} == set(range(len(CHOICES)))


@settings(max_examples=200)
@given(st.sampled_from(SEEDS), st.randoms(use_true_random=False), st.integers(1, 6))
def test_a_bent_seed_is_signed_soundly_or_refused(seed: bytes, chance: Random, times: int) -> None:
    """A raw fault is an answer 503; a signature that reaches another table is the end of the product."""
    data = seed
    for _ in range(times):
        data = mutate(data, chance)
    run(data)


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(data: bytes) -> None:
    """Whatever arrives has an answer."""
    assert run(data) is not Reason.ALLOWED


@pytest.mark.parametrize("seed", (0, 1))
def test_a_search_sees_many_outcomes_and_can_be_repeated(seed: int) -> None:
    """A mutator that only breaks JSON would test the parser of JSON."""
    seen: Counter[str] = Counter()
    for number in range(1500):
        data = mutate(SEEDS[number % len(SEEDS)], Random(seed * 10_000 + number))
        assert mutate(SEEDS[number % len(SEEDS)], Random(seed * 10_000 + number)) == data
        seen[run(data).code] += 1
    assert seen["allowed"] >= 100, seen
    assert len(seen) >= 15, seen


def test_without_the_engine_the_command_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine exists for one platform alone; elsewhere the short search above is all there is."""
    monkeypatch.setitem(sys.modules, "atheris", None)
    monkeypatch.setattr(sys, "argv", ["tests.fuzz", "--engine"])
    assert main() == 2
    assert "atheris is not installed" in capsys.readouterr().out

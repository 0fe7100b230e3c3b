"""Hold the arithmetic behind every published figure."""

from __future__ import annotations

import pytest

from bench.figures import Better, in_turns, lower_quartile, ratios, result


def test_a_result_is_the_median_with_its_smallest_and_largest_sample() -> None:
    """A mean would let one disturbed round move a published figure."""
    taken = result("sign.x", [3.0, 1.0, 100.0], unit="us", better="lower", against="nothing")
    assert (taken.value, taken.spread, taken.samples) == (3.0, (1.0, 100.0), 3)


def test_rounds_are_compared_in_pairs() -> None:
    """A slow round on both sides must not look like a slow signer."""
    assert ratios([10.0, 100.0], [5.0, 50.0]) == [2.0, 2.0]


def test_a_lost_round_is_no_ratio() -> None:
    """Pairing round two with round three would compare different machines."""
    with pytest.raises(ValueError, match="zip"):
        ratios([10.0], [5.0, 50.0])


@pytest.mark.parametrize(
    ("value", "better", "passes"),
    (
        (0.70, "higher", True),
        (0.6999, "higher", False),
        (0.70, "lower", True),
        (0.7001, "lower", False),
    ),
)
def test_the_must_itself_is_met(value: float, better: Better, passes: bool) -> None:
    """Turned round, a regression would be celebrated."""
    assert result("x", [value], unit="ratio", better=better, against="", must=0.70).passes is passes


def test_a_reported_figure_is_not_judged() -> None:
    """Microseconds of one machine must not fail the run on another."""
    assert result("x", [1e9], unit="us", better="lower", against="").passes


def test_figures_carry_four_digits() -> None:
    """More would claim a precision that no run has, and change the page on every one."""
    assert result("x", [0.123456789], unit="ratio", better="higher", against="").value == 0.1235


def test_every_second_round_runs_backwards() -> None:
    """A machine that slows down within each round would always favour the first contender."""
    assert [list(in_turns(("a", "b", "c"), number)) for number in (0, 1, 2)] == [
        ["a", "b", "c"],
        ["c", "b", "a"],
        ["a", "b", "c"],
    ]


def test_the_lower_quartile_shows_what_a_median_hides() -> None:
    """A median over its bar could stand on rounds of which nearly half are below it."""
    assert lower_quartile([0.5, 0.6, 0.9, 0.9, 0.9]) < 0.9
    assert lower_quartile([0.7]) == 0.7

"""The verdict of a benchmark: rounds whose interval contains the target decide nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.training.verdict import interval, verdict

ROUNDS = [0.90, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 1.00]


def test_the_interval_of_eleven_rounds_is_that_of_the_sign_test() -> None:
    # Between the second and the tenth of 11: 1 - 2 * (1 + 11) / 2048.
    found = interval(ROUNDS)
    assert (found.median, found.low, found.high) == (0.95, 0.91, 0.99)
    assert found.confidence == pytest.approx(0.9883, abs=1e-4)


def test_few_rounds_have_their_own_confidence() -> None:
    found = interval([1.0, 2.0, 4.0, 3.0])
    assert (found.median, found.low, found.high, found.confidence) == (2.5, 1.0, 4.0, 0.875)


@pytest.mark.parametrize(
    ("sense", "aim", "expected"),
    [
        (">=", 0.90, "yes"),
        (">=", 0.91, "yes"),
        (">=", 0.92, "undecided"),
        (">=", 0.995, "no"),
        ("<=", 1.0, "yes"),
        ("<=", 0.95, "undecided"),
        ("<=", 0.90, "no"),
    ],
)
def test_a_target_within_the_interval_is_undecided(sense: str, aim: float, expected: str) -> None:
    assert verdict(interval(ROUNDS), sense, aim) == expected  # type: ignore[arg-type]  # a parameter


@given(rounds=st.lists(st.floats(0.1, 10), min_size=1, max_size=40), aim=st.floats(0.1, 10))
def test_opposite_targets_have_opposite_verdicts(rounds: list[float], aim: float) -> None:
    found = interval(rounds)
    assert found.low <= found.median <= found.high
    if verdict(found, ">=", aim) == "no":
        assert verdict(found, "<=", aim) == "yes"

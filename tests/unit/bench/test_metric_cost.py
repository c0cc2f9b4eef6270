"""Cost of the metric history: bounded by the rate of parts, and as the documentation states it."""

from pathlib import Path

import pytest

from bench.metric_cost import JOBS, parts_of_a_job, reading, report, writing

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"


@pytest.mark.parametrize(("seconds", "parts"), [(0.01, 121), (30, 121), (60, 61), (7200, 1)])
def test_a_job_hour_has_at_most_121_parts(seconds: float, parts: int) -> None:
    assert parts_of_a_job(1, seconds) == parts


def test_writing_costs_what_the_requests_cost() -> None:
    requests, storage = writing(JOBS, 1, 1.0)
    assert requests.count == 1_210_000
    assert requests.dollars == pytest.approx(6.05)
    assert 0 < storage.dollars < requests.dollars


def test_a_read_at_the_end_lists_each_job_once_and_a_follower_at_each_interval() -> None:
    assert [item.count for item in reading(1, 1, 1.0, None)] == [1, 121]
    assert [item.count for item in reading(1, 24, 1.0, None)] == [3, 2881]
    assert [item.count for item in reading(1, 1, 1.0, 30.0)] == [120, 121]


def test_the_documented_costs_are_those_of_the_report() -> None:
    page = PAGE.read_text()
    assert [line for line in report() if line and line.strip() not in page] == []

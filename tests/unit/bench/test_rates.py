"""Rates: the simulation of `make bench-rates` with few lines; it counts calls and can detect a missed aim."""

import dataclasses

import pytest

from bench import rates
from traingrid.child.polling_pace import PollingPace


def test_children_stay_below_half_of_the_logs_rates_and_are_never_refused() -> None:
    scenario = dataclasses.replace(rates.SCENARIOS[1], lines=80, minutes=(10.0, 12.0))
    rows = {row["api"]: row for row in rates.play(scenario, children=40)["apis"]}
    logs = rows["logs.GetLogEvents"]
    assert logs["calls"] >= 80 * 2, "each log is read to its end"
    assert logs["per_second"] <= logs["limit"] / 2
    assert (logs["refused"], rows["logs.DescribeLogStreams"]["refused"]) == (0, 0)
    assert rows["sagemaker.CreateTrainingJob"]["calls"] == 80


def test_children_that_read_every_second_are_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PollingPace, "log_seconds", lambda *_: 1.0)
    scenario = dataclasses.replace(rates.SCENARIOS[1], lines=40, minutes=(10.0, 12.0))
    rows = {row["api"]: row for row in rates.play(scenario, children=40)["apis"]}
    assert rows["logs.GetLogEvents"]["refused"] > 100

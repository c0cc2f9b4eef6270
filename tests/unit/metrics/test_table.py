"""Metric table: points without pandas, and columns with it."""

import sys
from datetime import UTC, datetime
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

import traingrid as tg
from traingrid.metrics.table import COLUMNS, metric_table

POINTS = [
    tg.MetricPoint(
        index=0,
        region="us-east-1",
        attempt=1,
        metric="loss",
        value=0.5,
        step=step,
        epoch=None,
        time=datetime(2026, 11, 23, 16, tzinfo=UTC),
    )
    for step in (7, None)
]


class FakeDataFrame:
    """The calls of a DataFrame that the table uses."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = columns
        self.types: dict[str, str] = {}

    def astype(self, types: dict[str, str]) -> "FakeDataFrame":
        self.types = types
        return self


def test_points_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traingrid.metrics.table.find_spec", lambda _: None)
    assert metric_table(POINTS) == POINTS


def test_columns_with_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas: Any = ModuleType("pandas")
    pandas.__spec__ = ModuleSpec("pandas", None)
    pandas.DataFrame, pandas.to_datetime = FakeDataFrame, lambda values, utc: [values, utc]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    table: Any = metric_table(POINTS)
    assert tuple(table.columns) == COLUMNS
    assert table.columns["step"] == [7, None]
    assert table.columns["time"] == [[point.time for point in POINTS], True]
    assert table.types.keys() == set(COLUMNS) - {"time"}
    assert (table.types["step"], table.types["epoch"]) == ("Int64", "Int64")

"""Metric table: the metrics of a submission as a pandas DataFrame, if pandas is installed."""

from __future__ import annotations

from dataclasses import fields
from importlib.util import find_spec
from typing import TYPE_CHECKING

from traingrid.metrics.points import MetricPoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

COLUMNS = tuple(field.name for field in fields(MetricPoint))
"""The columns of the table."""
_TYPES = {"index": "int64", "region": "str", "attempt": "int64", "metric": "str", "value": "float64"}
_TYPES |= {"step": "Int64", "epoch": "Int64"}


def metric_table(points: Sequence[MetricPoint]) -> list[MetricPoint] | pd.DataFrame:
    """Return a DataFrame with a row for each point; without pandas, the points themselves.

    Steps and epochs are nullable integers (`Int64`), because a point may have none.
    """
    if find_spec("pandas") is None:
        return list(points)
    import pandas as pd  # noqa: PLC0415  # an optional library, whose import takes a second

    columns = {name: [getattr(point, name) for point in points] for name in COLUMNS}
    columns["time"] = pd.to_datetime(columns["time"], utc=True)
    return pd.DataFrame(columns).astype(_TYPES)

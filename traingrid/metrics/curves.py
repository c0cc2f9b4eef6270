"""Metric curves: the points of metric histories, grouped by metric."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traingrid.metrics.points import MetricPoint

_POSITIONS = frozenset({"epoch", "step"})
"""Metrics that are a place on the x-axis."""


def last_curves(points: Sequence[MetricPoint]) -> dict[str, list[MetricPoint]]:
    """Return the values of each metric in the last attempt that has reported values, by the name of the metric.

    Args:
        points: The points of one job, oldest first.
    """
    last_attempt = max((point.attempt for point in points), default=0)
    curves: dict[str, list[MetricPoint]] = defaultdict(list)
    for point in points:
        if point.attempt == last_attempt and point.metric not in _POSITIONS:
            curves[point.metric].append(point)
    return dict(sorted(curves.items()))


def group_by_job(points: Iterable[MetricPoint]) -> dict[int, list[MetricPoint]]:
    """Return the points of each job, by its index, in their order."""
    points_by_job: dict[int, list[MetricPoint]] = defaultdict(list)
    for point in points:
        points_by_job[point.index].append(point)
    return dict(points_by_job)

"""Metrics as a line of a log: CloudWatch takes them from there, and nobody waits for it.

The format is CloudWatch's embedded metric format
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html).
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

SWEPT, STOPPED_JOBS, UNREACHABLE, WAITING_LINES = "Swept", "TrainingJobsStopped", "Unreachable", "LinesWaiting"
"""Metrics of the reconciler that alarms are set on (stacks/alarms.py)."""

NAMESPACE = "traingrid"
"""CloudWatch's name for what belongs together: the metrics of all grids of an account and Region."""


def embedded_metrics(grid: str, counts: Mapping[str, float], facts: Mapping[str, Any]) -> str:
    """Return a line of a log that is a metric for each count, and says some facts beside.

    Args:
        grid: The grid's name, which is the only dimension: every further one would multiply what metrics cost.
        counts: Values by the metrics' names.
        facts: What else the line tells whoever reads it.
    """
    described = {
        "Timestamp": int(time.time() * 1000),
        "CloudWatchMetrics": [
            {
                "Namespace": NAMESPACE,
                "Dimensions": [["grid"]],
                "Metrics": [{"Name": name, "Unit": "Count"} for name in counts],
            }
        ],
    }
    return json.dumps({**facts, "_aws": described, "grid": grid, **counts})

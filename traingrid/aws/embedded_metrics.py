"""Embedded metrics: formats metrics as log lines, from which CloudWatch extracts them asynchronously.

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
"""The reconciler's metrics that have alarms (stacks/alarms.py)."""

NAMESPACE = "traingrid"
"""The CloudWatch namespace of the metrics of all grids of an account and Region."""


def embedded_metrics(grid: str, counts: Mapping[str, float], facts: Mapping[str, Any]) -> str:
    """Return a log line with a metric for each count, and additional fields.

    Args:
        grid: The grid's name, which is the only dimension, because each further dimension multiplies the cost.
        counts: The values by metric name.
        facts: Additional fields of the log line.
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

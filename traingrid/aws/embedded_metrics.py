"""Embedded metrics: the fields of a log line from which CloudWatch extracts metrics asynchronously.

The format is CloudWatch's embedded metric format
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html):
the JSON object of a line has the member `_aws`, and may have other members. It may be written in any way that reaches
CloudWatch Logs (https://github.com/aws/aws-logging-dotnet/issues/186), so a function logs it with `extra`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

SWEPT, STOPPED_JOBS, UNREACHABLE, WAITING_LINES = "Swept", "TrainingJobsStopped", "Unreachable", "LinesWaiting"
"""The reconciler's metrics that have alarms (stacks/alarms.py)."""

NAMESPACE = "traingrid"
"""The CloudWatch namespace of the metrics of all grids of an account and Region."""


def embedded_metrics(grid: str, counts: Mapping[str, float]) -> dict[str, Any]:
    """Return the fields of a log line with a metric for each count.

    Args:
        grid: The grid's name, which is the only dimension, because each further dimension multiplies the cost.
        counts: The values by metric name.
    """
    declaration = {
        "Timestamp": int(time.time() * 1000),
        "CloudWatchMetrics": [
            {
                "Namespace": NAMESPACE,
                "Dimensions": [["grid"]],
                "Metrics": [{"Name": name, "Unit": "Count"} for name in counts],
            }
        ],
    }
    return {"_aws": declaration, "grid": grid, **counts}

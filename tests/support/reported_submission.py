"""Reported submission: jobs in all states with hostile names, and their curves, for the tests of reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any

from tests.support.local_page import SUBMISSION, LocalGrid
from traingrid.job.state import JobState
from traingrid.metrics.history import MetricHistory
from traingrid.metrics.points import MetricPoint

SCRIPT = "<script>alert(1)</script>"
NAMES = ["digits night", "digits day", SCRIPT, "harbour", "snow", "fog", "tunnel", "bridge", "alley", "quarry & co"]
EPOCHS = 20
Read = Callable[[MetricHistory, Collection[int]], list[MetricPoint]]


def submit_reported(grid: LocalGrid, names: list[str] = NAMES) -> None:
    """Submit jobs with a budget: the third fails, the fourth fails, the fifth trains, and most others complete."""
    jobs = grid.submit(
        names, line={"budget_dollars": "500", "dollars_per_hour": "14.688", "hp.learning_rate": "0.{index}1"}
    )
    for job in jobs:
        index = job.index
        final = {name: value for name, value, _ in values(index, EPOCHS)[-6:]}
        ended: dict[str, Any] = {"training_seconds": 2400 + 60 * index, "billable_seconds": 2300 + 50 * index}
        ended |= {"epochs": EPOCHS, "training_started_at": 1_790_000_000}
        if index == 2:
            why = "AlgorithmError: ExecuteUserScriptError:\n\x1b[31mValueError\x1b[0m: nan <img src=x onerror=alert(1)>"
            grid.open(job, state=JobState.FAILED, failure="algorithm", reason=why, **ended)
        elif index == 3:
            grid.open(job, state=JobState.FAILED, failure="data", reason="ClientError: No S3 objects found")
        elif index == 4:
            grid.train(job, SUBMISSION, **{name: value for name, value, _ in values(index, 7)[-6:]})
        elif index != 5:
            artifact = f"s3://bucket/{index}/model.tar.gz"
            grid.open(job, state=JobState.COMPLETED, metrics=final, artifact=artifact, **ended)


def values(index: int, epochs: int) -> list[tuple[str, float, int]]:
    """Return the name, the value and the epoch of each metric of a job."""
    found = []
    for epoch in range(1, epochs + 1):
        wobble = math.sin(epoch * (1 + index % 7)) * 0.02
        found += [
            ("train_loss", 2.2 * math.exp(-epoch / (5 + index % 11)) + 0.05 + wobble, epoch),
            ("validation_loss", 2.3 * math.exp(-epoch / (6 + index % 11)) + 0.12 + wobble * 2, epoch),
            ("validation_top1", 0.98 - 0.8 * math.exp(-epoch / (4 + index % 9)) + wobble / 2, epoch),
            ("images_per_second", 1800 + 40 * (index % 13) + wobble * 900, epoch),
            ("epoch", float(epoch), epoch),
            ("learning_rate", 0.1 * (0.93**epoch), epoch),
        ]
    return found


def curves(jobs: int = len(NAMES), epochs: int = EPOCHS) -> Read:
    """Return a replacement of `MetricHistory.read`."""

    def read(_: MetricHistory, indexes: Collection[int]) -> list[MetricPoint]:
        return [
            MetricPoint(
                index=job,
                region="us-east-1",
                attempt=1,
                metric=metric,
                value=value,
                step=None,
                epoch=epoch,
                time=datetime.fromtimestamp(1.79e9 + 120 * epoch, UTC),
            )
            for job in range(jobs)
            if job in indexes and job not in {3, 5}
            for metric, value, epoch in values(job, 7 if job == 4 else epochs)
        ]

    return read

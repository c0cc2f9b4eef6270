"""Ranking: decides which job is the best, the order of jobs by a metric, and why a job cannot be the best."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.job.state import FINAL_STATES, JobState

if TYPE_CHECKING:
    from collections.abc import Collection

LOWER_IS_BETTER = r"(^|_)(loss|nll|error|err|perplexity|ppl|rmse|mse|mae|wer|cer|seconds)(_|$)"
"""Matches the name of a metric of which a lower value is better; regardless of case, and also in JavaScript."""


def is_lower_better(metric: str) -> bool:
    """Return True if the name of a metric means that a lower value is better."""
    return re.search(LOWER_IS_BETTER, metric, re.IGNORECASE) is not None


@dataclass(frozen=True, kw_only=True)
class RankedJob:
    """A job, as far as its rank depends on it.

    Only a completed job with a model can be the best. SageMaker describes the artifact of a stopped job, too, although
    a training that has less than two minutes to save its model may have uploaded none
    (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopTrainingJob.html).

    Attributes:
        state: A `JobState`; one that this version does not know counts as not ended.
        has_model: True if the ledger has the URI of a model.
        reason: Why it failed or was stopped; may be empty.
        metric: The name of the metric by which jobs are ranked; empty if they have none, None to ignore metrics.
        value: The last value of the metric; None if there is none.
    """

    state: str
    has_model: bool
    reason: str = ""
    metric: str | None = None
    value: float | None = None

    @property
    def exclusion(self) -> str:
        """Why the job cannot be the best, as a phrase; empty if it can."""
        if self.state not in FINAL_STATES:
            return "has not ended"
        if self.state != JobState.COMPLETED:
            reason = self.reason.partition("\n")[0]
            return f"{self.state.lower()}: {reason}" if reason else self.state.lower()
        if not self.has_model:
            return "has no model"
        if self.metric is None or self._is_finite:
            return ""
        return (
            f"has not reported {self.metric or 'a metric'}"
            if self.value is None
            else f"its {self.metric} is {self.value}"
        )

    @property
    def tier(self) -> int:
        """The rank that no value changes: jobs that can be the best, other completed, open, then failed or stopped."""
        if not self.exclusion:
            return 0
        if self.state == JobState.COMPLETED:
            return 1
        return 3 if self.state in FINAL_STATES else 2

    def order(self, *, lowest: bool) -> tuple[int, float]:
        """Return the sort key: the best first, and in each tier those without a finite value last."""
        if self.value is None or not self._is_finite:
            return self.tier, math.inf
        return self.tier, self.value if lowest else -self.value

    @property
    def _is_finite(self) -> bool:
        return self.value is not None and math.isfinite(self.value)


def explanation(jobs: Collection[RankedJob]) -> str:
    """Return why none of some jobs is the best, with the next step; empty if one is."""
    completed = [job for job in jobs if job.state == JobState.COMPLETED]
    if any(not job.exclusion for job in jobs):
        return ""
    if not completed and any(job.state not in FINAL_STATES for job in jobs):
        return "No job has completed yet. Wait until one has: `traingrid status SUBMISSION --watch`."
    if not completed:
        return "No job has completed. `traingrid status` shows the reasons; correct them, and run `traingrid retry`."
    if not any(job.has_model for job in completed):
        return "No completed job has a model. A script must write it to the folder SM_MODEL_DIR."
    metric = completed[0].metric
    if not metric:
        return (
            "No completed job with a model has reported a metric. Name the metrics of a script in `metrics` as its "
            "output has them, for example loss for loss=0.5; `traingrid logs SUBMISSION` prints the output."
        )
    return (
        f"No completed job with a model has reported a finite {metric}. Compare by another metric with --metric NAME."
    )

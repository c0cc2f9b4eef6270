"""Hyperparameters: those in which the jobs of a submission, or of all submissions of a sweep, differ."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from traingrid.errors import TraingridError, UsageError
from traingrid.ledger.damage import warn
from traingrid.metrics.comparison import differing
from traingrid.submission.journal import Begun
from traingrid.submission.series import Series
from traingrid.submission.submitted_jobs import last_submitted_jobs
from traingrid.sweep.journal import sweep_journal
from traingrid.threads import map_in_order
from traingrid.ui.rows import key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.api.control_plane import ControlPlane
    from traingrid.ledger.submission_item import SubmissionItem

logger = logging.getLogger(__name__)
MOST_SUBMISSIONS, MOST_JOBS, MOST_NAMES = 500, 10_000, 40
"""The most that one answer has. A browser shows each name as a column."""
_READS = 8
"""The number of submissions that are read at once."""


def hyperparameters(plane: ControlPlane, submissions: Sequence[str]) -> dict[str, Any]:
    """Return the hyperparameters that differ among jobs, as values that can be written as JSON.

    Args:
        submissions: The ids of one submission, or of those of a sweep.

    Returns:
        `names` of the hyperparameters; `jobs`, the values of each job in their order, None where it has none;
        `left_out`, the number of other names that differ; and `objective`, that of the sweep, or None.

    Raises:
        UsageError: There are too many submissions or jobs, or one does not exist.
    """
    ids = list(dict.fromkeys(submissions))
    if len(ids) > MOST_SUBMISSIONS:
        raise UsageError(f"{len(ids)} submissions were given.", f"Choose at most {MOST_SUBMISSIONS}.")
    items = list(map_in_order(plane.head, ids, _READS))
    jobs = sum(submission_item.jobs for submission_item in items)
    if jobs > MOST_JOBS:
        text = f"The submissions have {jobs:,} jobs, and the page compares the hyperparameters of up to {MOST_JOBS:,}."
        raise UsageError(text, "Choose a smaller submission, or run `traingrid compare`.")
    parts = map_in_order(lambda item: _hyperparameters_of(plane, item), items, _READS)
    by_job = {key: parameters for part in parts for key, parameters in part.items()}
    differing_names = differing(list(by_job.values()))
    in_order = dict.fromkeys(name for parameters in by_job.values() for name in parameters if name in differing_names)
    columns = list(in_order)[:MOST_NAMES]
    return {
        "names": columns,
        "jobs": {key: [parameters.get(name) for name in columns] for key, parameters in by_job.items()},
        "left_out": len(in_order) - len(columns),
        "objective": _objective(plane, {Series.of_manifest(submission_item.manifest) for submission_item in items}),
    }


def _hyperparameters_of(plane: ControlPlane, submission_item: SubmissionItem) -> dict[str, dict[str, str]]:
    """Return the hyperparameters of each job of a submission, by the key of the job."""
    jobs = last_submitted_jobs(plane.storage, plane.deployment.manifest_bucket, submission_item, warn)
    return {key_of(submission_item.submission, index): job.hyperparameters for index, job in jobs.items()}


def _objective(plane: ControlPlane, series: set[Series | None]) -> dict[str, str] | None:
    """Return the objective of the only sweep; None if there is none, or its journal is gone or cannot be read."""
    sweep = next(iter(series)) if len(series) == 1 else None
    if sweep is None or sweep.kind != "sweep":
        return None
    try:
        first_entry = sweep_journal(plane.storage, plane.deployment.manifest_bucket, sweep.name).first_entry()
    except TraingridError as error:
        logger.warning("the objective of a sweep is unknown: %s", error)
        return None
    objective: dict[str, str] | None = first_entry.spec.get("objective") if isinstance(first_entry, Begun) else None
    return objective

"""Series API: the submissions of a sweep or of rounds, by their name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.api.rounds_timeline import rounds_state
from traingrid.errors import UsageError
from traingrid.submission.journal import Submitted
from traingrid.submission.series import Series
from traingrid.sweep.journal import sweep_journal

if TYPE_CHECKING:
    from traingrid.api.control_plane import ControlPlane


def compared_submissions(plane: ControlPlane, name: str) -> list[str]:
    """Return the submissions whose jobs a command compares.

    Of a sweep, these are all trials. Of rounds, they are the merges: the metrics of global models are those on the same
    data, and the merge has the metrics of the Regions' models on it, too.

    Args:
        name: `sweep:NAME`, `rounds:NAME`, the id of a submission, or the first characters of an id.

    Raises:
        UsageError: There is none of this name, or it has nothing to compare yet.
    """
    series = Series.named(name)
    if series is None:
        return [plane.submission_id(name)]
    if series.kind == "rounds":
        rounds = rounds_state(plane, series.name).rounds.values()
        submissions = [part.merge_submission for part in rounds if part.merge_submission]
    else:
        entries = sweep_journal(plane.storage, plane.deployment.manifest_bucket, series.name).refresh()
        series.check_begun(entries)
        submissions = [entry.submission for entry in entries if isinstance(entry, Submitted)]
    if not submissions:
        jobs = "merge" if series.kind == "rounds" else "trial"
        raise UsageError(f"{series} has no {jobs} yet.", f"Its state: traingrid status {series}.")
    return submissions

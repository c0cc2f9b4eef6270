"""Series API: the submissions of a sweep or of rounds, by their name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.api.rounds_timeline import rounds_state, timeline
from traingrid.errors import UsageError
from traingrid.report.subject import Subject
from traingrid.submission.journal import Begun, Submitted
from traingrid.submission.series import Series
from traingrid.sweep.journal import sweep_journal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traingrid.api.control_plane import ControlPlane
    from traingrid.rounds.timeline import RoundView
    from traingrid.sweep.journal import Entry


def reported_subject(plane: ControlPlane, name: str) -> Subject:
    """Return the subject of a report: all trials of a sweep, all trainings and merges of rounds, or a submission.

    Raises:
        UsageError: There is none of this name.
    """
    series = Series.named(name)
    if series is None:
        return Subject.of(plane.head(plane.submission_id(name)).submission)
    if series.kind == "rounds":
        state = rounds_state(plane, series.name)
        rounds = timeline(plane, state)
        submissions = [name for view in rounds for name in (view.submission, view.merge) if name]
        return _subject(series, submissions, state.spec, rounds)
    entries = _entries_of_sweep(plane, series)
    spec = next((entry.spec for entry in entries if isinstance(entry, Begun)), None)
    return _subject(series, [entry.submission for entry in entries if isinstance(entry, Submitted)], spec)


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
        entries = _entries_of_sweep(plane, series)
        submissions = [entry.submission for entry in entries if isinstance(entry, Submitted)]
    if not submissions:
        raise _empty(series, "merge" if series.kind == "rounds" else "trial")
    return submissions


def _subject(
    series: Series, submissions: list[str], spec: Mapping[str, Any] | None, rounds: Sequence[RoundView] = ()
) -> Subject:
    if not submissions:
        raise _empty(series, "job")
    return Subject(submissions=submissions, series=series, spec=spec, rounds=rounds)


def _entries_of_sweep(plane: ControlPlane, series: Series) -> Sequence[Entry]:
    entries = sweep_journal(plane.storage, plane.deployment.manifest_bucket, series.name).refresh()
    series.check_begun(entries)
    return entries


def _empty(series: Series, noun: str) -> UsageError:
    return UsageError(f"{series} has no {noun} yet.", f"Its state: traingrid status {series}.")

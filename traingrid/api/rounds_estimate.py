"""Rounds estimate: reads the facts for the estimate of the rounds that follow; writes nothing."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from traingrid.api.submit import parsed
from traingrid.aws.error_codes import PERMISSION_CODES
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.catalog.list_prices import dollars_per_hour
from traingrid.manifest.line import NO_SUBMISSION, jobs_of_lines
from traingrid.rounds.estimate import JobEstimate, RoundsEstimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.api.control_plane import ControlPlane
    from traingrid.api.rounds import OpenRounds
    from traingrid.job.job import Job
    from traingrid.rounds.state import RoundsState
    from traingrid.rounds.timeline import RoundView

_HOUR = 3600.0
_MAX_OBJECTS = 100_000
"""A listing of this many objects takes 100 requests; the size of larger data is not computed."""


def rounds_estimate(
    plane: ControlPlane, opened: OpenRounds, state: RoundsState, views: Sequence[RoundView]
) -> RoundsEstimate:
    """Return the estimate of the rounds that follow, by the durations of the last round or those of the lines."""
    content = opened.rounds.manifest_of(len(state.models) + 1).encode()
    jobs = jobs_of_lines(parsed(Path("a round"), content, plane.deployment), plane.deployment, NO_SUBMISSION)
    last = next((view for view in reversed(views) if view.model), None)
    trainings = [
        JobEstimate(
            region=job.region,
            instances=job.instance_count,
            seconds=_seconds(job, last),
            hourly_dollars=dollars_per_hour(job),
            data_bytes=_data_bytes(job.region, str(row.get("s3_uri") or "")),
        )
        for job, row in zip(jobs, opened.rounds.lines, strict=True)
    ]
    return RoundsEstimate(
        rounds=opened.spec.rounds - len(state.models),
        trainings=trainings,
        merge=_merge(opened.spec.merge.region, last),
        weights_bytes=state.models[-1].size if state.models else None,
        begins_alone=not state.models and not opened.spec.init_from,
    )


def _seconds(job: Job, last: RoundView | None) -> float | None:
    """Return the expected duration of a line in a round; None if neither a round nor the line has it."""
    trained = last.parts[job.index].seconds if last else 0.0
    return trained or float(job.estimated_runtime_seconds) or None


def _merge(region: str, last: RoundView | None) -> JobEstimate:
    merging = last.merging if last else None
    if merging is None or not merging.seconds:
        return JobEstimate(region=region)
    hourly = None if merging.dollars is None else merging.dollars / merging.seconds * _HOUR
    return JobEstimate(region=region, seconds=merging.seconds, hourly_dollars=hourly)


def _data_bytes(region: str, folder: str) -> int | None:
    """Return the size of a folder; None if the line has none, it has too many objects, or it must not be listed."""
    if not folder:
        return None
    prefix = S3Uri.parse(f"{folder.rstrip('/')}/")
    try:
        sizes = [size for _, size in islice(Storage(region).sizes(prefix), _MAX_OBJECTS)]
    except ClientError as error:
        if error.response["Error"]["Code"] not in PERMISSION_CODES:
            raise
        return None
    return sum(sizes) if len(sizes) < _MAX_OBJECTS else None

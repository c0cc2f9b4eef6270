"""`traingrid cancel`: records a cancel and stops jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from botocore.exceptions import BotoCoreError, ClientError

from traingrid.api.control_plane import ControlPlane
from traingrid.aws.outage import is_outage
from traingrid.errors import TraingridError, UsageError, interrupted
from traingrid.submission.cancel import Canceller, Wanted
from traingrid.text import counted, printable

if TYPE_CHECKING:
    from pathlib import Path

    from traingrid.submission.cancel import CancelReport

_RECORDED = (
    "The cancel is recorded: the reconciler stops the rest within two sweeps (10 minutes). "
    "To stop it sooner, run the same command again."
)


@click.command()
@click.argument("submission")
@click.option("--index", type=click.IntRange(min=0), help="Cancel only the job with this index.")
@click.option("--region", default="", help="Cancel only jobs that train, or would train next, in this Region.")
@click.option("--reason", default="", help="Reason, recorded in the ledger.")
@click.pass_obj
def cancel(grid_file: Path, submission: str, index: int | None, region: str, reason: str) -> None:
    """Stop the jobs of SUBMISSION for good.

    Waiting jobs are not started, and training jobs are stopped. A cancel cannot be undone. Repeating it is harmless and
    stops jobs that were not reached the first time.
    """
    if index is not None and region:
        raise UsageError("--index and --region were both given.", "Give one of them, or neither to cancel all jobs.")
    plane = ControlPlane.of(grid_file)
    submission = plane.submission_id(submission)
    wanted = Wanted(submission=submission, index=index, region=region, by=plane.caller(), reason=reason)
    report = _ended(plane.canceller, wanted)
    batch_jobs, training_jobs = (
        counted(len(report.batch_jobs), "Batch job"),
        counted(len(report.training_jobs), "training job"),
    )
    click.echo(f"asked {batch_jobs} to end and {training_jobs} to stop; a running child stops its own training job")
    for name in report.training_jobs:
        click.echo(name)
    click.echo(f"Track it with: traingrid status {submission} --watch")
    if report.errors:
        for what, why in report.errors.items():
            click.echo(f"{what}: {printable(why)}", err=True)
        raise TraingridError("Some jobs could not be stopped.", _RECORDED)


def _ended(canceller: Canceller, wanted: Wanted) -> CancelReport:
    """Record the cancel, report that, and stop the jobs; once recorded, the cancel takes effect despite any error."""
    try:
        head = canceller.record(wanted)
    except (BotoCoreError, ClientError) as error:
        if not is_outage(error):
            raise
        step = "The cancel may have been recorded. Run the command again; repeating it is harmless."
        raise TraingridError(f"AWS request failed: {error}.", step) from error
    click.echo(f"recorded: {_words(wanted.index, wanted.region)} of submission {wanted.submission} is cancelled")
    try:
        return canceller.end(head, wanted)
    except KeyboardInterrupt:
        raise interrupted(_RECORDED) from None


def _words(index: int | None, region: str) -> str:
    if index is not None:
        return f"job {index}"
    return f"everything in {region}" if region else "all"

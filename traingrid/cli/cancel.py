"""`traingrid cancel`: records a cancel and stops jobs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from botocore.exceptions import BotoCoreError, ClientError

from traingrid.api.control_plane import ControlPlane
from traingrid.aws.outage import is_outage
from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import Output, output_option, sentence_printer, write_rows
from traingrid.cli.parameter_types import REGION, SUBMISSION
from traingrid.errors import TraingridError, UsageError, interrupted
from traingrid.submission.cancel import Canceller, CancelReport, CancelTarget
from traingrid.text import counted, printable

_RECORDED = (
    "The cancel is recorded: the reconciler stops the rest within two passes (10 minutes). "
    "To stop it sooner, run the same command again."
)

_ROWS: Schema[Any] = Schema(
    "job that was asked to end",
    Column("submission", "string: The submission's id."),
    Column("kind", "string: batch_job, training_job, or error."),
    Column("name", "string: The id of the Batch job, the name of the training job, or what could not be reached."),
    Column("error", "string: The reason why it could not be stopped yet; empty if it was asked."),
)


@click.command()
@click.argument("submission", type=SUBMISSION)
@click.option("--index", type=click.IntRange(min=0), help="Cancel only the job with this index.")
@click.option(
    "--region", default="", type=REGION, help="Cancel only jobs that train, or would train next, in this Region."
)
@click.option("--reason", default="", help="Reason, recorded in the ledger.")
@output_option(_ROWS)
@click.pass_obj
def cancel(  # noqa: PLR0913  # the options of the command
    grid_file: Path, submission: str, index: int | None, region: str, reason: str, *, output: Output
) -> None:
    """Stop the jobs of SUBMISSION for good.

    Waiting jobs are not started, and training jobs are stopped. A cancel cannot be undone. Repeating it is harmless and
    stops jobs that were not reached the first time.
    """
    if index is not None and region:
        raise UsageError("--index and --region were both given.", "Give one of them, or neither to cancel all jobs.")
    plane = ControlPlane.of(grid_file)
    submission = plane.submission_id(submission)
    target = CancelTarget(submission=submission, index=index, region=region, by=plane.caller(), reason=reason)
    echo = sentence_printer(output)
    report = _record_and_stop(plane.canceller, target, echo)
    write_rows(_rows(submission, report), _ROWS, output)
    batch_jobs = counted(len(report.batch_jobs), "Batch job")
    training_jobs = counted(len(report.training_jobs), "training job")
    echo(f"asked {batch_jobs} to end and {training_jobs} to stop; a running child stops its own training job")
    for name in report.training_jobs:
        echo(name)
    echo(f"Track it with: traingrid status {submission} --watch")
    if report.errors:
        for job, error in report.errors.items():
            click.echo(f"{job}: {printable(error)}", err=True)
        raise TraingridError("Some jobs could not be stopped.", _RECORDED)


def _rows(submission: str, report: CancelReport) -> Iterator[dict[str, str]]:
    rows = [("batch_job", name, "") for name in report.batch_jobs]
    rows += [("training_job", name, "") for name in report.training_jobs]
    rows += [("error", *error) for error in report.errors.items()]
    for kind, name, error in rows:
        yield {"submission": submission, "kind": kind, "name": name, "error": error}


def _record_and_stop(canceller: Canceller, target: CancelTarget, echo: Callable[[str], None]) -> CancelReport:
    """Record the cancel, report that, and stop the jobs; once recorded, the cancel takes effect despite any error."""
    try:
        submission_item = canceller.record(target)
    except (BotoCoreError, ClientError) as error:
        if not is_outage(error):
            raise
        step = "The cancel may have been recorded. Run the command again; repeating it is harmless."
        raise TraingridError(f"AWS request failed: {error}.", step) from error
    echo(f"recorded: {_scope_words(target.index, target.region)} of submission {target.submission} is cancelled")
    try:
        return canceller.end(submission_item, target)
    except KeyboardInterrupt:
        raise interrupted(_RECORDED) from None


def _scope_words(index: int | None, region: str) -> str:
    if index is not None:
        return f"job {index}"
    return f"everything in {region}" if region else "all"

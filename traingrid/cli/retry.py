"""`traingrid retry`: retries failed and stopped jobs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.api.submit import read_manifest, with_initial_models
from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import Output, output_option, sentence_printer, write_rows
from traingrid.cli.parameter_types import REGION, SUBMISSION
from traingrid.errors import TraingridError, UsageError, interrupted
from traingrid.manifest.hardware_warnings import jobs_warnings
from traingrid.submission.retry import Retried, Retrier
from traingrid.submission.retry_plan import ToRetry
from traingrid.text import printable

_ROWS: Schema[Any] = Schema(
    "job that failed or was stopped",
    Column("submission", "string: The submission's id."),
    Column("index", "integer: The array index."),
    Column("retried", "boolean: Whether it has a new attempt."),
    Column("reason", "string: The reason why it is not retried; empty if it is."),
    Column("later", "boolean: Whether the same command can retry it later."),
)


@click.command()
@click.argument("submission", type=SUBMISSION)
@click.argument("manifest", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--index", type=click.IntRange(min=0), help="Retry only the job with this index.")
@click.option("--region", default="", type=REGION, help="Train next in this Region of the lines.")
@output_option(_ROWS)
@click.pass_obj
def retry(  # noqa: PLR0913  # one parameter for each option
    grid_file: Path, submission: str, manifest: Path | None, index: int | None, region: str, *, output: Output
) -> None:
    """Retry failed and stopped jobs.

    Each job of SUBMISSION that failed or was stopped gets a new attempt. MANIFEST is the submission's manifest with
    some lines fixed: only jobs whose lines have changed are then retried, with the new lines. The rows must be in their
    original order. With --region, jobs train next in that Region, and take their newest checkpoint along.
    """
    plane = ControlPlane.of(grid_file)
    submission = plane.submission_id(submission)
    retrier = replace(plane.retrier, region=region)
    by = plane.caller()
    echo = sentence_printer(output)
    todo = _plan(retrier, submission, manifest, index, echo)
    try:
        retried = retrier.run(todo, by, partial(_print_array, echo))
    except KeyboardInterrupt:
        step = (
            "Submitted jobs continue. Retry the rest by the same command after two passes of the reconciler (10 min)."
        )
        raise interrupted(step) from None
    write_rows(_rows(submission, retried), _ROWS, output)
    for left_index, reason in sorted(retried.left.items()):
        echo(f"job {left_index} is not retried: {printable(reason)}")
    count = len(retried.indices)
    if count:
        echo(f"{count} job{'s' * (count != 1)} retried, Batch job {', '.join(retried.batch_jobs)}")
        if manifest is None:
            echo(f"The lines and scripts are those that were submitted; others: traingrid retry {submission} MANIFEST")
        echo(f"Track it with: traingrid status {submission} --watch")
    elif not retried.late:
        echo(f"Submission {submission} has nothing to retry.")
    if retried.late:
        text = f"{len(retried.late)} job{'s' * (len(retried.late) != 1)} cannot be retried yet."
        step = "The reconciler closes jobs without a child within two passes (10 minutes); other jobs state their time."
        raise TraingridError(text, f"{step} Then run the same command again.")


def _rows(submission: str, done: Retried) -> Iterator[dict[str, Any]]:
    reasons = dict.fromkeys(done.indices, "") | done.left
    for index, reason in sorted(reasons.items()):
        outcome = {"retried": not reason, "reason": reason, "later": index in done.late}
        yield {"submission": submission, "index": index, **outcome}


def _plan(
    retrier: Retrier, submission: str, manifest: Path | None, index: int | None, echo: Callable[[str], None]
) -> ToRetry:
    """Return the plan of a retry, after its warnings; with a corrected manifest, after uploading its sources, too."""
    if manifest is None:
        todo = retrier.planned(submission, index=index)
        _warn(todo, retrier)
        return todo
    if index is not None:
        step = "Give one of them. With a manifest, only the jobs whose lines have changed are retried."
        raise UsageError("MANIFEST and --index were both given.", step)
    lines, sources = read_manifest(manifest, retrier.deployment)
    lines = with_initial_models(manifest, lines, retrier.deployment)
    todo = retrier.planned(submission, lines)
    _warn(todo, retrier)
    sources.upload(echo)  # only after the plan has accepted the manifest
    lines_of = {job.index: job.line for job in todo.jobs}
    for changed, fields in sorted(todo.changed.items()):
        echo(f"job {changed}, line {lines_of[changed]}, has changed: {', '.join(fields)}")
    return todo


def _warn(todo: ToRetry, retrier: Retrier) -> None:
    for sentence in jobs_warnings(todo.jobs, retrier.deployment):
        click.echo(sentence, err=True)


def _print_array(echo: Callable[[str], None], batch_job: str, count: int) -> None:
    echo(f"submitted {batch_job}: {count} job{'s' * (count != 1)}")

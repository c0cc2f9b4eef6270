"""`traingrid status`: shows submissions and jobs."""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import click
from rich.console import Console

from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.description import absent_metrics
from traingrid.api.rejected_manifest import raise_if_rejected, would_be_id
from traingrid.api.rounds_timeline import rounds_state, timeline
from traingrid.api.series import compared_submissions
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import console, print_damaged
from traingrid.cli.export import Output, output_option, sentence_printer, write_rows
from traingrid.cli.fitted_table import fitted_table
from traingrid.cli.live_status import watch_overview, watch_submission
from traingrid.cli.overview_table import more_sentence, overview_tables
from traingrid.cli.parameter_types import SUBMISSION
from traingrid.cli.rounds_table import ROUNDS, best_sentences, print_rounds
from traingrid.cli.status_table import JOB_ROWS, STYLES, paused_sentence, reasons, status_rows, status_table
from traingrid.errors import UsageError
from traingrid.job.state import JobState
from traingrid.ledger.damage import readable
from traingrid.ledger.errors import UnknownSubmissionError
from traingrid.ledger.rejections import unresolved
from traingrid.submission.listing import ListedSubmission, listed_submissions
from traingrid.submission.overview import SubmissionOverview
from traingrid.submission.series import Series
from traingrid.submission.status import SubmissionStatus
from traingrid.text import counted, printable

_LARGE = 500
"""For more jobs, `status` shows an overview."""
_MAX_REJECTIONS = 10
_LEAST_OF_MANIFEST = 12
"""The characters of a manifest's name for which other columns are left out in a narrow terminal."""


def _submissions(folder: str = "") -> Schema[ListedSubmission]:
    """Return the columns of submissions; the table has the manifests' names relative to a folder."""

    def stored(name: str, help_text: str, heading: str = "", rank: int = 0) -> Column[ListedSubmission]:
        return Column(
            name, help_text, value=lambda row: getattr(row.item, name), heading=heading, fit="whole", rank=rank
        )

    states = (
        "string: The state of its jobs; if they differ, InProgress while one runs, and the worst once all have ended."
    )
    return Schema(
        "submission, newest first, without one",
        stored("submission", "string: The submission's id.", "submission"),
        Column("state", states, _state_text, heading="state", style=_state_style, fit="whole", rank=1),
        stored("jobs", "integer: The number of its jobs.", "jobs", 3),
        Column("states", "object: The number of its jobs in each state; empty if it is not known."),
        stored(
            "claimed_at", "string: The time at which the intake claimed the manifest, in ISO 8601.", "claimed at", 4
        ),
        Column(
            "manifest",
            "string: The S3 URI of the manifest.",
            lambda row: row.item.manifest.removeprefix(folder),
            value=lambda row: row.item.manifest,
            heading="manifest",
            rank=2,
            max_width=_LEAST_OF_MANIFEST,
        ),
        stored("version", "string: The S3 version of the manifest."),
        stored("batch_job", "string: The id of the Batch job."),
    )


def _state_style(row: ListedSubmission) -> str:
    return STYLES.get(row.state, "")


def _state_text(row: ListedSubmission) -> str:
    """Return the state that all jobs have, or the number of jobs in each state."""
    if len(row.states) < 2:
        return str(*row.states or [row.state])
    return ", ".join(f"{count:,} {state}" for state, count in sorted(row.states.items()))


@click.command()
@click.argument("submission", required=False, type=SUBMISSION)
@click.option("--watch", is_flag=True, help="Update the table until every job has ended. [default: newest submission]")
@click.option("--all", "is_complete", is_flag=True, help="Show every job of a large submission.")
@output_option(_submissions(), JOB_ROWS, ROUNDS)
@click.pass_obj
def status(grid_file: Path, submission: str | None, *, watch: bool, is_complete: bool, output: Output) -> None:
    """Show jobs, or list submissions.

    With SUBMISSION, shows its jobs; of more than 500 jobs, their numbers in each Region and state, and the failed and
    running jobs. With the id of a rejected manifest, prints all of its errors. With rounds:NAME, shows each round with
    its Regions; with sweep:NAME, lists its submissions.
    """
    plane = ControlPlane.of(grid_file)
    if submission and (series := Series.named(submission)):
        _print_series(plane, series, output, watch=watch)
        return
    submission = plane.submission_id(submission) if submission is not None else None
    if watch and output != "table":
        raise UsageError(f"--output {output} excludes --watch.", "Omit one of them.")
    if watch and submission is None:
        submission = _newest_submission(plane)
    try:
        _show(plane, submission, output, watch=watch, is_complete=is_complete)
    except UnknownSubmissionError:
        raise_if_rejected(plane, submission or "")
        raise


def _show(plane: ControlPlane, submission: str | None, output: Output, *, watch: bool, is_complete: bool) -> None:
    """Print the submissions, or the jobs of one."""
    if output != "table":
        if submission:
            status_of_jobs = plane.status(submission)
            write_rows(status_rows(status_of_jobs), JOB_ROWS, output)
            for part in status_of_jobs.damaged:
                print_damaged(part)
        else:
            submissions = listed_submissions(plane.ledger, print_damaged)
            write_rows(submissions, _submissions(), output)
            for sentence in _rejections(plane, submissions):
                click.echo(sentence, err=True)
        return
    out = console()
    _print_warnings(plane, out)
    if submission is None:
        submissions = listed_submissions(plane.ledger, print_damaged)
        _print_list(plane, submissions, out)
        for sentence in _rejections(plane, submissions):
            out.print(sentence, style="red", markup=False, soft_wrap=True)
    else:
        _print_jobs(plane, submission, out, watch=watch, is_complete=is_complete)


def _print_series(plane: ControlPlane, series: Series, output: Output, *, watch: bool) -> None:
    """Print the rounds of a name with the best one, or the submissions of a sweep.

    Raises:
        UsageError: There is none of this name, or --watch is given.
    """
    if watch:
        raise UsageError("--watch follows one submission.", f"Name one, or run `traingrid {series.kind} SPEC`.")
    if series.kind == "rounds":
        views = timeline(plane, rounds_state(plane, series.name))
        print_rounds(series.name, views, output)
        for sentence in best_sentences(series.name, views):
            sentence_printer(output)(sentence)
        return
    ids = set(compared_submissions(plane, str(series)))
    submissions = [row for row in listed_submissions(plane.ledger, print_damaged) if row.item.submission in ids]
    if output == "table":
        _print_list(plane, submissions, console())
    else:
        write_rows(submissions, _submissions(), output)


def _print_list(plane: ControlPlane, submissions: Sequence[ListedSubmission], out: Console) -> None:
    table = fitted_table("", _submissions(_manifest_folder(plane)).columns, submissions, out.width, min_columns=2)
    out.print(table if submissions else " ".join(_no_submission(plane)), soft_wrap=not submissions)


def _manifest_folder(plane: ControlPlane) -> str:
    return str(S3Uri(plane.deployment.manifest_bucket, names.MANIFEST_PREFIX))


def _no_submission(plane: ControlPlane) -> tuple[str, str]:
    """Return that a grid has no submission, and the two ways to submit a manifest."""
    folder = _manifest_folder(plane)
    step = f"Submit a manifest: traingrid submit manifest.csv, or put it into {folder}; other folders start nothing."
    return "This grid has no submission yet.", step


def _newest_submission(plane: ControlPlane) -> str:
    """Return the submission that was claimed last."""
    items = list(readable(plane.ledger.submissions(), print_damaged))
    if not items:
        raise UsageError(*_no_submission(plane))
    return max(items, key=lambda item: item.claimed_at).submission


def _rejections(plane: ControlPlane, submissions: Sequence[ListedSubmission]) -> Iterator[str]:
    """Yield a sentence for each manifest that was rejected in the last week and not corrected since."""
    rejections = unresolved(readable(plane.ledger.rejections(), print_damaged), (row.item for row in submissions))
    for rejection in rejections[:_MAX_REJECTIONS]:
        yield printable(rejection.sentence)
        if rejection.errors > 1 and not rejection.batch_job:
            yield f"  all errors: traingrid status {would_be_id(rejection)}"
    if len(rejections) > _MAX_REJECTIONS:
        yield f"{counted(len(rejections) - _MAX_REJECTIONS, 'older rejected manifest')} of the last week not shown."


def _print_warnings(plane: ControlPlane, out: Console) -> None:
    """Print a pause, and the Regions without capacity."""
    pause = plane.ledger.pause()
    if pause:
        out.print(paused_sentence(pause), style="yellow", markup=False, soft_wrap=True)
    for shortage in readable(plane.ledger.shortages(), print_damaged):
        if not shortage.is_over(time.time()):
            out.print(printable(shortage.sentence()), style="yellow", markup=False, soft_wrap=True)


def _print_jobs(plane: ControlPlane, submission: str, out: Console, *, watch: bool, is_complete: bool) -> None:
    """Print the table of jobs, or only the numbers of a large submission; wait for its end with `watch`."""
    if not is_complete and plane.head(submission).jobs > _LARGE:
        overview = watch_overview(plane, submission, out) if watch else plane.overview(submission)
        print_overview(overview, out)
        for part in overview.damaged:
            print_damaged(part)
        return
    status_of_jobs = watch_submission(plane, submission, out) if watch else plane.status(submission)
    if not watch:
        with out.pager() if out.is_terminal and len(status_of_jobs.jobs) > _LARGE else nullcontext():
            out.print(status_table(status_of_jobs, out.width))
    for reason in reasons(status_of_jobs):
        out.print(reason, style="red", markup=False, soft_wrap=True)
    for sentence in _absent_metrics(plane, status_of_jobs):
        out.print(printable(sentence), style="yellow", markup=False, soft_wrap=True)
    for part in status_of_jobs.damaged:
        print_damaged(part)


def _absent_metrics(plane: ControlPlane, status_of_jobs: SubmissionStatus) -> Iterator[str]:
    """Yield a sentence about each metric of which completed jobs have no value, and which may have no column."""
    if not any(job.state == JobState.COMPLETED for job in status_of_jobs.jobs):
        return
    lines = plane.last_submitted_jobs(status_of_jobs.submission)
    jobs_by_metric = defaultdict[str, list[str]](list)
    for status_of_job in status_of_jobs.jobs:
        line = lines.get(status_of_job.index)
        for name in absent_metrics(status_of_job, line.metrics if line and line.source else ()):
            jobs_by_metric[name].append(status_of_job.name)
    for name, jobs in jobs_by_metric.items():
        more = f" and {counted(len(jobs) - 1, 'more job')}" if len(jobs) > 1 else ""
        yield f"metric {name}: no line of the log of {jobs[0]}{more} has a number for its expression"


def print_overview(overview: SubmissionOverview, out: Console) -> None:
    """Print the overview of a submission, and the command that shows all of its jobs."""
    for title, table in overview_tables(overview, out.width):
        out.print(title, style="italic", markup=False, soft_wrap=True)
        out.print(table)
        out.print()
    out.print(more_sentence(overview), markup=False, soft_wrap=True)

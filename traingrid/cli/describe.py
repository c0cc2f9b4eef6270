"""`traingrid describe` and `traingrid open`: show one job, here or in the AWS console."""

import json
import shlex
import webbrowser
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.api.description import JobDescription, absent_metrics
from traingrid.api.description import describe as description_of
from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import Output, output_option, write_rows
from traingrid.cli.parameter_types import SUBMISSION
from traingrid.cli.status_table import state_and_phase
from traingrid.errors import TraingridError
from traingrid.job.candidates import place
from traingrid.job.failures import FAILURES
from traingrid.ledger.items import RecordedAttempt
from traingrid.text import duration, printable

_JOB: Schema[Any] = Schema(
    "job, always one",
    Column("submission", "string: The submission's id."),
    Column("status", "object: The fields of [JobStatus](api.md#jobstatus)."),
    Column("manifest", "string: The S3 URI of the manifest."),
    Column("line", "integer: The number of its line in the manifest; 0 if it is not known."),
    Column("fields", "object: The line with all defaults applied, as it was submitted last."),
    Column("attempts", "array of objects: The attempts, oldest first."),
    Column("failure", "string: The failure class of the last attempt; empty if it has not failed."),
    Column("advice", "string: The next step after that failure; empty if none is needed."),
    Column("console", "string: The address of the training job in the AWS console; empty before it is requested."),
)
_ADDRESS: Schema[Any] = Schema(
    "job, always one",
    Column("submission", "string: The submission's id."),
    Column("index", "integer: The array index."),
    Column("console", "string: The address of the training job in the AWS console."),
)


@click.command()
@click.argument("submission", type=SUBMISSION)
@click.argument("index", type=click.IntRange(min=0), default=0)
@output_option(_JOB)
@click.pass_obj
def describe(grid_file: Path, submission: str, index: int, *, output: Output) -> None:
    """Show everything about one job.

    Prints its line with all defaults, its attempts, its metrics and its model, and commands for the next steps. The job
    is line INDEX of SUBMISSION, counted from 0.
    """
    plane = ControlPlane.of(grid_file)
    submission = plane.submission_id(submission)
    description = description_of(plane, submission, index)
    if output != "table":
        write_rows([{"submission": submission, **vars(description)}], _JOB, output)
        return
    for name, value in _lines(submission, description):
        lines = printable_lines(value)
        click.echo(f"{name + ':' if name else '':<14} {lines[0]}")
        for line in lines[1:]:
            click.echo(f"{'':<14} {line}")


@click.command("open")
@click.argument("submission", type=SUBMISSION)
@click.argument("index", type=click.IntRange(min=0), default=0)
@output_option(_ADDRESS)
@click.pass_obj
def open_(grid_file: Path, submission: str, index: int, *, output: Output) -> None:
    """Open a training job in the AWS console.

    Prints the address, and opens it in a browser if there is one; with --output json or csv, only prints it. The job
    is line INDEX of SUBMISSION, counted from 0.
    """
    plane = ControlPlane.of(grid_file)
    submission = plane.submission_id(submission)
    description = description_of(plane, submission, index)
    if not description.console:
        text = f"Job {index} of submission {submission} has no training job: it is {description.status.state}."
        raise TraingridError(text, f"See: traingrid describe {submission} {index}")
    if output != "table":
        row = {"submission": submission, "index": index, "console": description.console}
        write_rows([row], _ADDRESS, output)
        return
    click.echo(description.console)
    webbrowser.open(description.console)


def printable_lines(text: str) -> list[str]:
    """Return the lines of a text, at least one, with control characters as escapes."""
    return [printable(line) for line in text.splitlines()] or [""]


def _lines(submission: str, description: JobDescription) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each line; a line without name continues the one before it."""
    status = description.status
    yield "job", f"{status.name} (index {status.index} of submission {submission})"
    yield "manifest", f"{description.manifest}, line {description.line}" if description.line else description.manifest
    yield "state", state_and_phase(status) + (" cancelled" if status.cancelled else "")
    if status.reason:
        yield "reason", status.reason
    if description.failure:
        yield "failure", f"{description.failure}. {description.advice}".strip()
    if status.started_at:
        started = datetime.fromtimestamp(status.started_at, UTC)
        elapsed = duration(status.elapsed(datetime.now(UTC).timestamp()))
        yield "time", f"{elapsed}, started {started:%Y-%m-%d %H:%M:%S} UTC"
    if status.dollars:
        yield "cost", f"${status.dollars:,.2f} so far, without transfer and orchestration"
    yield from _named_rows("metrics", _metrics(description))
    if status.artifact:
        yield "model", status.artifact
    names_of_metrics = {"metrics": ", ".join(description.fields.get("metrics", ()))}  # their expressions are in JSON
    fields = {name: names_of_metrics.get(name) or _value(value) for name, value in description.fields.items()}
    yield from _named_rows("line", fields)
    for number, attempt in enumerate(description.attempts):
        yield "attempts" if number == 0 else "", _attempt(attempt)
    if description.console:
        yield "console", description.console
    yield "next", f"traingrid logs {submission} {status.index}" + ("" if status.created else " --child")
    if status.artifact:
        yield "", f"traingrid download {submission} {status.index}"
    if status.ended and status.state != "Completed" and not status.cancelled:
        yield "", _retry(submission, description)


def _retry(submission: str, description: JobDescription) -> str:
    """Return the command that retries a job: with the corrected manifest, if the same line would fail again."""
    failure = FAILURES.get(description.failure)
    if failure and failure.of_line:
        file = shlex.quote(description.manifest.rpartition("/")[2])
        return f"traingrid retry {submission} {file}   (with the line or its program corrected)"
    return f"traingrid retry {submission}"


def _metrics(description: JobDescription) -> dict[str, str]:
    """Return the text of each metric, also of those of a completed script without a value."""
    texts = {name: f"{value:g}" for name, value in sorted(description.status.metrics.items())}
    fields = description.fields
    absent = absent_metrics(description.status, fields.get("metrics", ()) if "source" in fields else ())
    if absent and not texts:
        return {"none": "no line of the log has a number for an expression of the line's metrics"}
    return texts | dict.fromkeys(absent, "none: no line of the log has a number for its expression")


def _named_rows(name: str, values: dict[str, str]) -> Iterator[tuple[str, str]]:
    width = max(map(len, values), default=0)
    for number, (key, value) in enumerate(values.items()):
        yield name if number == 0 else "", f"{key:<{width}}  {value}"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _attempt(attempt: RecordedAttempt) -> str:
    """Return the outcome of an attempt in one line, and its checkpoint in another."""
    options = " on demand" if attempt.on_demand else ""
    billed = f", {duration(attempt.billable_seconds)} billed" if attempt.billable_seconds else ""
    reason = f": {attempt.reason.splitlines()[0]}" if attempt.reason else ""
    outcome = f"{attempt.state}{f' ({attempt.failure})' if attempt.failure else ''}"
    checkpoint = f"\n   {attempt.checkpoint_sentence}" if attempt.checkpoint_note else ""
    return f"{attempt.attempt}  {place(*attempt.candidate)}{options}  {outcome}{billed}{reason}{checkpoint}"

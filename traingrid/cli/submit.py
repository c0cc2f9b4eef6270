"""`traingrid submit`: submits a manifest and prints the submission."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from traingrid.api.deployed import find_deployment
from traingrid.api.submit import (
    Progress,
    check_name,
    check_resources,
    parsed_packed,
    submit_manifest,
    with_initial_models,
    with_packed_sources,
)
from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import announcing_a_wait, console
from traingrid.cli.export import Output, output_option, sentence_printer, write_rows
from traingrid.cli.planned_cost import cost_sentences
from traingrid.cli.planned_rows import PLANNED_ROWS, detail_lines, planned_table
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.manifest.hardware_warnings import warning_sentences
from traingrid.manifest.plan import Planned, planned
from traingrid.text import counted, printable

SUBMISSION_ROWS: Schema[Any] = Schema(
    "submission",
    Column("submission", "string: The submission's id."),
    Column("jobs", "integer: The number of its jobs."),
    Column("batch_job", "string: The id of the Batch job."),
)
PRINTING_PROGRESS = Progress(announce=click.echo, warn=click.echo, waiting=announcing_a_wait)
"""Prints the progress of a submission."""


@click.command()
@click.argument("manifest", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--plan", is_flag=True, help="Only print the jobs that the lines would become; upload nothing.")
@click.option("--details", is_flag=True, help="With --plan, also print the data and the image of each job.")
@output_option(SUBMISSION_ROWS, PLANNED_ROWS)
@click.pass_obj
def submit(grid_file: Path, manifest: Path, *, plan: bool, details: bool, output: Output) -> None:
    """Submit the jobs of MANIFEST.

    Uploads the file and waits until its jobs are submitted or the file is rejected.
    """
    if details and (output != "table" or not plan):
        text = "--details adds sentences to the table of --plan; --output json and csv always contain these details."
        raise UsageError(text, "Run: traingrid submit MANIFEST --plan --details")
    check_name(manifest)
    deployment = find_deployment(grid_file)
    if plan:
        _print_plan(manifest, deployment, output, is_detailed=details)
    else:
        progress = replace(PRINTING_PROGRESS, announce=sentence_printer(output), warn=sentence_printer(output))
        print_submission(submit_manifest(manifest, deployment, progress), output)


def print_submission(report: dict[str, Any], output: Output = "table") -> None:
    """Print the submission of an intake's report, and the command that tracks it."""
    echo = sentence_printer(output)
    write_rows([report], SUBMISSION_ROWS, output)
    jobs = counted(report["jobs"], "job")
    echo(f"submission {report['submission']}: {jobs}, Batch job {report['batch_job']}")
    echo(f"Track it with: traingrid status {report['submission']} --watch")


def _print_plan(manifest: Path, deployment: Deployment, output: Output, *, is_detailed: bool) -> None:
    """Print the jobs that a manifest would create; reads only.

    Args:
        is_detailed: Describe each job in some lines, as that of a manifest with a single line.

    Raises:
        TraingridError: The manifest is invalid, or some jobs would fail in the present state.
    """
    content = with_packed_sources(manifest, deployment)
    lines = with_initial_models(manifest, parsed_packed(manifest, content, deployment), deployment)
    check_resources(manifest, lines, deployment)
    planned_jobs = list(planned(lines, deployment))
    echo = sentence_printer(output)
    if output != "table":
        write_rows(planned_jobs, PLANNED_ROWS, output)
    elif is_detailed or len(planned_jobs) == 1:
        click.echo("\n\n".join("\n".join(detail_lines(job)) for job in planned_jobs))
    else:
        _print_table(planned_jobs)
    for source in content.sources:
        echo(f"would upload {printable(str(source))}")
    for sentence in warning_sentences(((line.job.line, line.channels) for line in planned_jobs), "Data"):
        echo(sentence)
    for sentence in warning_sentences((line.job.line, line.warnings) for line in planned_jobs):
        echo(sentence)
    for sentence in cost_sentences([line.job for line in planned_jobs]):
        echo(sentence)
    failing = sum(line.would_fail for line in planned_jobs)
    unchecked = sum(line.is_unchecked for line in planned_jobs)
    echo(
        f"{counted(len(planned_jobs), 'job')}, {counted(sum(line.job.ranks for line in planned_jobs), 'rank')}; "
        f"{failing} would fail now" + (f", {unchecked} could not be checked" if unchecked else "")
    )
    if failing:
        text = f"{failing} of {counted(len(planned_jobs), 'job')} would fail now."
        raise TraingridError(text, "Nothing was written. Upload the data and images, or fix the lines.")
    echo("Nothing was written. Submit it without --plan.")


def _print_table(planned_jobs: list[Planned]) -> None:
    """Print a row for each job, and a sentence for each outcome that has a reason or a condition."""
    out = console()
    out.print(planned_table(planned_jobs, out.width))
    outcomes = ((job.job.line, [job.outcome]) for job in planned_jobs if job.outcome != job.verdict)
    for sentence in warning_sentences(outcomes, "Outcome"):
        click.echo(printable(sentence))
    click.echo("With --details, each job has its data and its image.")

"""`traingrid submit`: submits a manifest and prints the submission."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traingrid.api.deployed import find_deployment
from traingrid.api.source_folders import packed
from traingrid.api.submit import Progress, check_name, parsed, submit_manifest
from traingrid.cli.console import announcing_a_wait, console
from traingrid.cli.plan_table import plan_table
from traingrid.errors import TraingridError
from traingrid.manifest.plan import planned
from traingrid.text import counted, printable

if TYPE_CHECKING:
    from traingrid.grid.deployment import Deployment

PRINTED = Progress(announce=click.echo, waiting=announcing_a_wait)
"""Prints the progress of a submission."""


@click.command()
@click.argument("manifest", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--plan", is_flag=True, help="Only print the jobs that the lines would become; upload nothing.")
@click.pass_obj
def submit(grid_file: Path, manifest: Path, *, plan: bool) -> None:
    """Submit the jobs of MANIFEST.

    Uploads the file and waits until its jobs are submitted or the file is rejected.
    """
    check_name(manifest)
    deployment = find_deployment(grid_file)
    if plan:
        _print_plan(manifest, deployment)
    else:
        print_submission(submit_manifest(manifest, deployment, PRINTED))


def print_submission(report: dict[str, Any]) -> None:
    """Print the submission of an intake's report, and the command that tracks it."""
    jobs = counted(report["jobs"], "job")
    click.echo(f"submission {report['submission']}: {jobs}, Batch job {report['batch_job']}")
    click.echo(f"Track it with: traingrid status {report['submission']} --watch")


def _print_plan(manifest: Path, deployment: Deployment) -> None:
    """Print the jobs that a manifest would create; reads only.

    Raises:
        TraingridError: The manifest is invalid, or some jobs would fail in the present state.
    """
    content = packed(manifest, deployment)
    found = list(planned(parsed(manifest, content.content, deployment), deployment))
    console().print(plan_table(found))
    for source in content.sources:
        click.echo(f"would upload {printable(str(source))}")
    failing, unchecked = sum(line.would_fail for line in found), sum(line.is_unchecked for line in found)
    click.echo(
        f"{counted(len(found), 'job')}, {counted(sum(line.job.ranks for line in found), 'rank')}; "
        f"{failing} would fail now" + (f", {unchecked} could not be checked" if unchecked else "")
    )
    if failing:
        text = f"{failing} of {counted(len(found), 'job')} would fail now."
        raise TraingridError(text, "Nothing was written. Upload the data and images, or fix the lines.")
    click.echo("Nothing was written. Submit it without --plan.")

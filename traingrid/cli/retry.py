"""`traingrid retry`: try failed and stopped jobs once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traingrid.cli.console import printable
from traingrid.cli.status import ControlPlane
from traingrid.clients import client
from traingrid.retrying import Retrier

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("submission")
@click.pass_obj
def retry(grid_file: Path, submission: str) -> None:
    """Try the jobs of SUBMISSION that failed or were stopped once more, each under a new attempt."""
    plane = ControlPlane.of(grid_file)
    retrier = Retrier(deployment=plane.deployment, ledger=plane.ledger, storage=plane.storage, batch=plane.batch)
    by = client("sts", plane.deployment.grid.home).get_caller_identity()["Arn"]
    done = retrier.retry(submission, by)
    for index, why in sorted(done.left.items()):
        click.echo(f"job {index} is left: {printable(why)}")
    if not done.indices:
        click.echo(f"nothing of submission {submission} is to be tried again")
        return
    count = len(done.indices)
    click.echo(f"{count} job{'s' * (count != 1)} tried again, Batch job {', '.join(done.batch_jobs)}")
    click.echo(f"follow it with: traingrid status {submission} --watch")

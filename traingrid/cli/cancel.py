"""`traingrid cancel`: end jobs, by a recorded intent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from botocore.exceptions import BotoCoreError, ClientError

from traingrid.cancelling import Canceller, Wanted
from traingrid.children import Children
from traingrid.cli.console import printable
from traingrid.cli.status import ControlPlane
from traingrid.clients import client
from traingrid.errors import TraingridError, UsageError, interrupted
from traingrid.outage import is_outage

if TYPE_CHECKING:
    from pathlib import Path

    from traingrid.cancelling import Told

_RECORDED = (
    "The cancel is recorded: the reconciler stops the rest within two sweeps (10 minutes). "
    "Sooner: the same command again."
)


@click.command()
@click.argument("submission")
@click.option("--index", type=click.IntRange(min=0), help="Only the job of this index.")
@click.option("--region", default="", help="Only the jobs that train, or would train next, in this Region.")
@click.option("--reason", default="", help="Why; it is kept in the ledger.")
@click.pass_obj
def cancel(grid_file: Path, submission: str, index: int | None, region: str, reason: str) -> None:
    """End the jobs of SUBMISSION for good: those that wait are not started, those that train are stopped.

    A cancel is never taken back. Doing it again does no harm and ends what was not reached the first time.
    """
    if index is not None and region:
        raise UsageError("--index and --region were both given.", "Give one of them, or neither for the whole.")
    plane = ControlPlane.of(grid_file)
    home, bucket = plane.deployment.grid.home, plane.deployment.manifest_bucket
    canceller = Canceller(
        deployment=plane.deployment,
        ledger=plane.ledger,
        children=Children(plane.storage, bucket, home),
        storage=plane.storage,
    )
    by = client("sts", home).get_caller_identity()["Arn"]
    wanted = Wanted(submission=submission, index=index, region=region, by=by, reason=reason)
    told = _ended(canceller, wanted)
    click.echo(f"{len(told.batch_jobs)} Batch jobs told to end, {len(told.training_jobs)} training jobs told to stop")
    for name in told.training_jobs:
        click.echo(name)
    click.echo(f"see it end with: traingrid status {submission} --watch")
    if told.errors:
        for what, why in told.errors.items():
            click.echo(f"{what}: {printable(why)}", err=True)
        raise TraingridError("Not all of it could be told to end.", _RECORDED)


def _ended(canceller: Canceller, wanted: Wanted) -> Told:
    """Cancel, and say so as soon as it is recorded: whatever goes wrong then, it ends."""
    try:
        head = canceller.record(wanted)
    except (BotoCoreError, ClientError) as error:
        if not is_outage(error):
            raise
        step = "It may be recorded all the same. Give the command again: twice is once."
        raise TraingridError(f"AWS answers: {error}.", step) from error
    click.echo(f"recorded: {_words(wanted.index, wanted.region)} of submission {wanted.submission} is cancelled")
    try:
        return canceller.end(head, wanted)
    except KeyboardInterrupt:
        raise interrupted(_RECORDED) from None


def _words(index: int | None, region: str) -> str:
    if index is not None:
        return f"job {index}"
    return f"everything in {region}" if region else "all"

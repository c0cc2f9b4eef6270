"""`traingrid audit`: compares the ledger with SageMaker in every Region, and with Batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traingrid.api.deployed import find_deployment
from traingrid.audit.audit import audit as violations_of
from traingrid.audit.audit import counts, notes
from traingrid.audit.read_snapshot import read_world
from traingrid.cli.console import console
from traingrid.cli.copies import copies_sentence, copies_table, found_copies
from traingrid.errors import TraingridError
from traingrid.ledger.errors import UnknownSubmissionError
from traingrid.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from traingrid.audit.violation import Violation
    from traingrid.grid.deployment import Deployment


@click.command()
@click.argument("submission", required=False, default="")
@click.option(
    "--details", is_flag=True, help="Also compare artifacts, billed seconds and roles, with one call for each job."
)
@click.pass_obj
def audit(grid_file: Path, submission: str, *, details: bool) -> None:
    """Find lost, duplicate and orphaned jobs.

    Accounts for every line and every training job of the grid, or of SUBMISSION. Without SUBMISSION, also lists copies
    between Regions that no job needs, with their cost. Changes nothing.
    """
    deployment = find_deployment(grid_file)
    world = read_world(deployment, submission=submission, details=details)
    if submission and submission not in world.submissions:
        raise UnknownSubmissionError(submission)
    found = violations_of(world)
    for violation in found:
        click.echo(printable(str(violation)))
    for note in notes(world):
        click.echo(printable(f"note: {note}"))
    if not submission:
        _list_copies(deployment)
    jobs = sum(head.jobs for head in world.submissions.values())
    submissions, regions = counted(len(world.submissions), "submission"), counted(len(world.regions), "Region")
    training_jobs = counted(len(world.training_jobs), "training job")
    click.echo(f"{counted(jobs, 'job')} of {submissions}, {training_jobs}, {regions}")
    click.echo(account(found))
    if found:
        text = f"{counted(len(found), 'invariant violation')}."
        raise TraingridError(text, "docs/operations.md explains each line and what to do.")


def _list_copies(deployment: Deployment) -> None:
    """Print the copies between Regions that no job needs, which cost storage but violate no invariant."""
    copies = found_copies(deployment)
    if copies:
        console().print(copies_table(copies))
        click.echo(f"{copies_sentence(copies)}. Remove them with: traingrid data prune")


def account(found: Sequence[Violation]) -> str:
    """Return the summary line of an audit, with the number of violations by kind."""
    by_kind = counts(found)
    other = f", other {by_kind['other']}" if by_kind["other"] else ""
    return f"duplicates {by_kind['duplicate']}, orphans {by_kind['orphan']}, lost {by_kind['lost']}{other}"

"""`traingrid audit`: compares the ledger with SageMaker in every Region, and with Batch."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.audit.audit import audit as violations_of
from traingrid.audit.audit import counts, notes
from traingrid.audit.borders import BorderCrossing, border_crossings
from traingrid.audit.read_snapshot import read_world
from traingrid.audit.violation import Violation
from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import console, print_damaged
from traingrid.cli.copies import COPY_ROWS, copies_sentence, found_copies
from traingrid.cli.export import Output, output_option, sentence_printer, write_rows
from traingrid.cli.folded_table import folded_table
from traingrid.cli.parameter_types import SUBMISSION
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.ledger.damage import readable
from traingrid.ledger.errors import UnknownSubmissionError
from traingrid.ledger.moves import Moves
from traingrid.text import byte_size, counted, printable

AUDIT_ROWS: Schema[Any] = Schema(
    "violated invariant",
    Column("invariant", "string: I1 to I7 of [reliability.md](reliability.md); empty for a note."),
    Column("kind", "string: duplicate, orphan, lost, other, or note, which is no violation."),
    Column("submission", "string: The affected submission; empty if it is not known."),
    Column("what", "string: A sentence that describes it and its place."),
)


BORDER_ROWS: Schema[BorderCrossing] = Schema(
    "copy between Regions, with --borders",
    Column("job", "string: The job for which it was copied, SUBMISSION/INDEX.", heading="job"),
    Column("source", "string: The S3 URI that was copied.", heading="source"),
    Column("target", "string: The S3 URI of the copy."),
    Column("from_region", "string: The Region of the source.", heading="from"),
    Column("to_region", "string: The Region of the copy.", heading="to"),
    Column(
        "bytes",
        "integer: The transferred bytes.",
        lambda row: byte_size(row.bytes),
        heading="size",
        right=True,
    ),
)


@click.command()
@click.argument("submission", required=False, default="", type=SUBMISSION)
@click.option("--all", "is_complete", is_flag=True, help="Also account for submissions that have ended.")
@click.option(
    "--details", is_flag=True, help="Also compare artifacts, billed seconds and roles, with one call for each job."
)
@click.option("--borders", is_flag=True, help="Only list the bytes that SUBMISSION brought to other Regions.")
@output_option(AUDIT_ROWS, BORDER_ROWS)
@click.pass_obj
def audit(  # noqa: PLR0913  # one parameter for each option
    grid_file: Path, submission: str, *, is_complete: bool, details: bool, borders: bool, output: Output
) -> None:
    """Find lost, duplicate and orphaned jobs.

    Accounts for every line and every training job of submissions with open work, with --all of the grid, or of
    SUBMISSION. Without SUBMISSION, also lists copies between Regions that no job needs, with their cost. Changes
    nothing.
    """
    plane = ControlPlane.of(grid_file)
    deployment = plane.deployment
    submission = submission and plane.submission_id(submission)
    if borders:
        _list_borders(plane, submission, output)
        return
    world = read_world(deployment, submission=submission, is_complete=is_complete, details=details)
    if submission and submission not in world.submissions:
        raise UnknownSubmissionError(submission)
    violations = violations_of(world)
    if output == "table":
        for line in (*map(str, violations), *(f"note: {note}" for note in notes(world))):
            click.echo(printable(line))
        if not submission:
            _list_copies(deployment, is_complete=is_complete)
    else:
        write_rows(audit_rows(violations, notes(world)), AUDIT_ROWS, output)
    jobs = sum(submission_item.jobs for submission_item in world.submissions.values())
    submissions = counted(len(world.submissions), "submission")
    regions = counted(len(world.regions), "Region")
    training_jobs = counted(len(world.training_jobs), "training job")
    echo = sentence_printer(output)
    part = "" if submission or is_complete else "; --all includes submissions without open work"
    echo(f"{counted(jobs, 'job')} of {submissions}, {training_jobs}, {regions}{part}")
    echo(account(violations))
    if violations:
        text = f"{counted(len(violations), 'invariant violation')}."
        raise TraingridError(text, "docs/operations.md explains each line and what to do.")


def audit_rows(violations: Sequence[Violation], noted: Sequence[str] = ()) -> Iterator[Violation | dict[str, str]]:
    """Yield violations and notes for an export."""
    yield from violations
    for note in noted:
        yield {"invariant": "", "kind": "note", "submission": "", "what": note}


def _list_borders(plane: ControlPlane, submission: str, output: Output) -> None:
    """Print the copies between Regions of a submission's jobs.

    Raises:
        UsageError: There is no submission.
    """
    if not submission:
        raise UsageError(
            "--borders lists the copies of one submission.", "Name it: traingrid audit SUBMISSION --borders."
        )
    plane.head(submission)
    moves = Moves(plane.deployment.table, plane.deployment.grid.home)
    rows = sorted(
        border_crossings(readable(moves.all(), print_damaged), submission), key=lambda row: (row.job, row.source)
    )
    if output != "table":
        write_rows(rows, BORDER_ROWS, output)
    elif rows:
        table = folded_table([column for column in BORDER_ROWS.columns if column.heading], rows)
        table.header_style = ""
        console().print(table)
    size = byte_size(sum(row.bytes for row in rows))
    copies = "1 copy" if len(rows) == 1 else f"{len(rows):,} copies"
    sentence_printer(output)(f"{copies} between Regions, {size}.")


def _list_copies(deployment: Deployment, *, is_complete: bool) -> None:
    """Print the copies between Regions that no job needs, which cost storage but violate no invariant."""
    copies = found_copies(deployment, is_complete=is_complete)
    if copies:
        write_rows(((copy, None) for copy in copies), COPY_ROWS, "table")
        click.echo(f"{copies_sentence(copies)}. Remove them with: traingrid data prune")


def account(violations: Sequence[Violation]) -> str:
    """Return the summary line of an audit, with the number of violations by kind."""
    by_kind = counts(violations)
    others_text = f", other {by_kind['other']}" if by_kind["other"] else ""
    return f"duplicates {by_kind['duplicate']}, orphans {by_kind['orphan']}, lost {by_kind['lost']}{others_text}"

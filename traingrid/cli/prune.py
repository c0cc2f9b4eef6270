"""`traingrid data`, and its command `prune`: removes copies between Regions that no job needs."""

import uuid
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import click

from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.audit.copies import UnneededCopy
from traingrid.audit.prune import Prune, PruneReport
from traingrid.aws.s3_copy import CopyStore
from traingrid.aws.s3_delete import Deleter
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.copies import COPY_ROWS, copies_sentence, folders_in_use, found_copies
from traingrid.cli.export import Output, output_option, sentence_printer, write_rows
from traingrid.cli.parameter_types import SUBMISSION
from traingrid.cli.record_index import index
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.ledger.datasets import Datasets
from traingrid.ledger.moves import MoveItem, Moves
from traingrid.text import byte_size, counted, printable
from traingrid.transfers.listing import Folders

_VERSIONED = (
    "Its bucket is versioned: the deleted objects remain as noncurrent versions, which cost storage until a lifecycle "
    "rule of the bucket, or you, delete them."
)


@click.group()
def data() -> None:
    """Manage copies and indices of data."""


data.add_command(index)


@data.command()
@click.argument("folder", required=False, default="")
@click.option("--submission", default="", type=SUBMISSION, help="Remove only copies that jobs of this submission made.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output_option(COPY_ROWS)
@click.pass_obj
def prune(grid_file: Path, folder: str, submission: str, *, yes: bool, output: Output) -> None:
    """Delete copies that no open job needs.

    Lists the copies with their cost, or only the copy in FOLDER, an S3 URI, and asks for confirmation. Objects that are
    not part of a copy, or that the source no longer has, are kept. Running an interrupted command again continues.
    """
    plane = ControlPlane.of(grid_file)
    echo = sentence_printer(output)
    deployment = plane.deployment
    submission = submission and plane.submission_id(submission)
    copies = [
        copy
        for copy in found_copies(deployment)
        if folder.rstrip("/") in ("", copy.item.target)
        and submission in ("", *(job.partition("/")[0] for job in (copy.item.job, *copy.item.earlier)))
    ]
    if not copies:
        if folder or submission:
            text = f"There is no unneeded copy {f'in {folder}' if folder else f'of submission {submission}'}."
            raise UsageError(printable(text), "`traingrid audit` lists the unneeded copies.")
        echo("no unneeded copies")
    elif output == "table":
        write_rows(((copy, None) for copy in copies), COPY_ROWS, output)
    if copies:
        echo(copies_sentence(copies))
    copies_to_remove = copies if yes or (copies and _is_confirmed(output)) else []
    if len(copies_to_remove) < len(copies):
        echo("Nothing was deleted.")
    reports = [_remove(deployment, copy, echo) for copy in copies_to_remove]
    if output != "table":
        write_rows(zip_longest(copies, reports), COPY_ROWS, output)
    unpruned = sum(report.result != "pruned" for report in reports)
    if unpruned:
        message = f"{unpruned} of {len(copies)} copies could not be removed."
        raise TraingridError(message, "The lines above state the reasons.")


def _is_confirmed(output: Output) -> bool:
    try:
        return click.confirm("Delete the objects of these copies for good?", err=output != "table")
    except click.Abort:
        raise UsageError("The deletion was not confirmed, so nothing was deleted.", "Answer y, or add --yes.") from None


def _remove(deployment: Deployment, copy: UnneededCopy, echo: Callable[[str], None]) -> PruneReport:
    """Remove a copy, print the result and return it."""
    try:
        report = _prune(deployment, copy.item).run()
    except TraingridError as error:  # another process has changed its item, perhaps to one that cannot be read
        echo(printable(f"{copy.item.target}: not removed. {error}"))
        return PruneReport(result="changed")
    for sentence in _sentences(copy.item, report):
        echo(printable(sentence))
    return report


def _prune(deployment: Deployment, item: MoveItem) -> Prune:
    """Return the removal of a copy."""
    home, store = deployment.grid.home, CopyStore(item.region)
    target = S3Uri.parse(item.target)
    outputs = names.output_bucket(deployment.grid.name, deployment.account_of(item.region), item.region)
    is_checkpoints = target.key.endswith(f"/{names.CHECKPOINTS}")
    folders = Folders(
        source=S3Uri.parse(item.source),
        source_store=CopyStore(item.from_region),
        target=target,
        target_store=store,
        # An output bucket has copies of models, whose folder may have other objects, and of checkpoints.
        names=frozenset({names.MODEL_ARCHIVE} if target.bucket == outputs and not is_checkpoints else ()),
    )
    return Prune(
        item=item,
        moves=Moves(deployment.table, home),
        datasets=Datasets(deployment.table, home),
        folders=folders,
        deleter=Deleter(item.region),
        user_now=lambda: folders_in_use(deployment).user_of(item.target, item.region),
        owner=f"prune-{uuid.uuid4().hex}",
        is_whole=is_checkpoints,
    )


def _sentences(item: MoveItem, report: PruneReport) -> list[str]:
    """Return the result of a prune as lines of the output."""
    if report.result == "needed":
        return [f"{item.target}: kept, because {report.user} needs it now"]
    if report.result == "changed":
        return [f"{item.target}: kept, because it has changed since it was listed; run the command again"]
    if report.result == "kept" and not report.kept:
        return [f"{item.target}: kept, because a training has continued in it; it is not listed any more"]
    deletion = f"{counted(report.objects, 'object')}, {byte_size(report.bytes)}, deleted"
    lines = [f"{item.target}: {deletion if report.result == 'pruned' else 'kept'}"]
    if report.kept:
        more = ", ..." if report.kept > len(report.named) else ""
        remainder = f"kept {counted(report.kept, 'object')} that it did not write, or that {item.source} lacks"
        lines.append(f"{item.target}: {remainder}: {', '.join(report.named)}{more}")
    return [*lines, f"{item.target}: {_VERSIONED}"] if report.versioned else lines

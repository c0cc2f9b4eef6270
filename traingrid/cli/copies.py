"""Copies: finds and prints the copies between Regions that no job needs, for `audit` and `data prune`."""

from collections.abc import Sequence

from traingrid.audit.copies import UnneededCopy, unneeded_copies
from traingrid.audit.prune import PruneReport
from traingrid.aws.s3 import Storage
from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import print_damaged
from traingrid.deploy.prices import BUCKET_STORAGE, GIGABYTE
from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.moves import Moves
from traingrid.submission.folders_in_use import FolderFinder, FoldersInUse
from traingrid.text import counted


def folders_in_use(deployment: Deployment, *, is_complete: bool = True) -> FoldersInUse:
    """Read the ledger and the submissions, and return the folders that open jobs read.

    Args:
        is_complete: Read the whole ledger, for a caller that deletes folders: the index of open work lacks jobs that a
            version without it has reopened within the last day.
    """
    home, bucket = deployment.grid.home, deployment.manifest_bucket
    finder = FolderFinder(storage=Storage(home), bucket=bucket)
    ledger = Ledger(deployment.table, home)
    return finder.find(ledger.everything() if is_complete else ledger.open_items())


def found_copies(deployment: Deployment, *, is_complete: bool = True) -> list[UnneededCopy]:
    """Return the copies of a grid that no open job needs; `folders_in_use` describes the arguments."""
    moves = Moves(deployment.table, deployment.grid.home)
    return unneeded_copies(
        deployment, moves, lambda: folders_in_use(deployment, is_complete=is_complete), report=print_damaged
    )


COPY_ROWS: Schema[tuple[UnneededCopy, PruneReport | None]] = Schema(
    "copy",
    Column("target", "string: The S3 URI of the copy.", value=lambda row: row[0].item.target, heading="unneeded copy"),
    Column("source", "string: The S3 URI of its source.", value=lambda row: row[0].item.source),
    Column("region", "string: Its Region.", value=lambda row: row[0].item.region, heading="Region"),
    Column(
        "bytes",
        "integer: The size of the objects that it wrote.",
        lambda row: f"{row[0].bytes / GIGABYTE:,.2f}",
        value=lambda row: row[0].bytes,
        heading="GB",
        right=True,
    ),
    Column(
        help="number: Its monthly cost.",
        render=lambda row: f"{monthly_dollars(row[0].bytes):,.2f}",
        heading="$/month",
        right=True,
    ),
    Column("why", "string: Why it is not needed.", value=lambda row: row[0].reason, heading="reason"),
    Column(
        "result",
        "string: pruned, kept, needed, changed, or listed if nothing was deleted.",
        value=lambda row: row[1].result if row[1] else "listed",
    ),
    Column("deleted", "integer: The number of deleted objects.", value=lambda row: row[1].objects if row[1] else 0),
    Column("kept", "integer: The number of objects that were kept.", value=lambda row: row[1].kept if row[1] else 0),
)
"""The columns of copies and of the results of pruning them."""


def copies_sentence(copies: Sequence[UnneededCopy]) -> str:
    """Return the number of copies, their size and their monthly cost."""
    size = sum(copy.bytes for copy in copies)
    number = counted(len(copies), "unneeded copy").replace("copys", "copies")
    cost = f"${monthly_dollars(size):,.2f} a month at the list price of us-east-1"
    return f"{number}, {size / GIGABYTE:,.2f} GB, {cost}"


def monthly_dollars(size: int) -> float:
    """Return the cost of storing bytes in S3 Standard for a month, in US dollars."""
    return size / GIGABYTE * BUCKET_STORAGE.dollars

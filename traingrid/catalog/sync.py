"""Sync: projects the ledger's jobs into the table `runs`, and its datasets and copies into theirs.

The ledger remains the source of truth. A sync reads each submission that has changed since the last one, or that had
open jobs, and replaces its rows. Running it again changes nothing, and `rebuild` creates the same rows from nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from sqlalchemy import select

from traingrid.aws.s3 import Storage
from traingrid.catalog.batches import delete_rows, upsert
from traingrid.catalog.copies import copy_moves, forget_moves
from traingrid.catalog.links import link_datasets, price_runs
from traingrid.catalog.registered import copy_registered, forget_registered
from traingrid.catalog.run_rows import Lines, run_rows
from traingrid.catalog.tables import runs, synced_submissions, transfers
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.damage import readable, warn
from traingrid.ledger.datasets import Datasets
from traingrid.ledger.errors import ItemError
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.moves import Moves
from traingrid.text import counted

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from traingrid.catalog.database import Catalog
    from traingrid.grid.deployment import Deployment
    from traingrid.grid.orchestrator import Orchestrator

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Synced:
    """The result of a sync.

    Attributes:
        submissions: The number of submissions that were read.
        runs: The number of rows that were written.
        replicas: The number of registered replicas that were added.
    """

    submissions: int
    runs: int
    replicas: int = 0

    @property
    def sentence(self) -> str:
        """The result as a sentence without a full stop."""
        new = f", {counted(self.replicas, 'new replica')}" if self.replicas else ""
        return f"{counted(self.runs, 'run')} of {counted(self.submissions, 'changed submission')}{new}"


@dataclass(frozen=True, kw_only=True)
class GridRecords:
    """The records of a grid.

    Attributes:
        orchestrator: The size of the Batch children, which determines their cost.
    """

    ledger: Ledger
    datasets: Datasets
    moves: Moves
    orchestrator: Orchestrator
    storage: Storage
    bucket: str

    @classmethod
    def of(cls, deployment: Deployment) -> Self:
        """Return the records of a deployed grid."""
        table, home = deployment.table, deployment.grid.home
        return cls(
            ledger=Ledger(table, home),
            datasets=Datasets(table, home),
            moves=Moves(table, home),
            orchestrator=deployment.grid.orchestrator,
            storage=Storage(home),
            bucket=deployment.manifest_bucket,
        )


def sync(catalog: Catalog, grid: GridRecords) -> Synced:
    """Bring the tables of registered datasets, `runs` and `transfers` up to date with the ledger.

    Raises:
        TraingridError: The database does not answer.
    """
    added_replicas = copy_registered(catalog, grid.datasets)
    with catalog.read_only() as connection:
        synced_before = {row.submission: row for row in connection.execute(select(synced_submissions))}
    submissions = written_runs = 0
    for submission_item in readable(grid.ledger.submissions(), warn):
        before = synced_before.get(submission_item.submission)
        if before and before.changed_at == submission_item.changed_at and not before.open_jobs:
            continue
        rows = catalog.write(partial(_replace, submission=submission_item.submission, grid=grid))
        logger.info("submission %s: %d runs", submission_item.submission, rows)
        submissions += 1
        written_runs += rows
    catalog.write(partial(_copy_moves, moves=grid.moves))
    catalog.write(link_datasets)
    catalog.write(price_runs)
    return Synced(submissions=submissions, runs=written_runs, replicas=added_replicas)


def rebuild(catalog: Catalog, grid: GridRecords) -> Synced:
    """Delete all runs and registered datasets and read the whole ledger again; imported rows do not change.

    Raises:
        TraingridError: The database does not answer.
    """
    catalog.write(_forget)
    return sync(catalog, grid)


def _forget(connection: Connection) -> None:
    forget_registered(connection)
    forget_moves(connection)
    delete_rows(connection, synced_submissions)
    delete_rows(connection, runs)


def _replace(connection: Connection, *, submission: str, grid: GridRecords) -> int:
    """Replace a submission's rows, and return their number.

    The ledger is read in the transaction, after the database has been read. So if two processes replace the same rows
    in Aurora DSQL, the one that commits later has read the ledger later, or its transaction is repeated
    (https://docs.aws.amazon.com/aurora-dsql/latest/userguide/working-with-concurrency-control.html).
    """
    connection.execute(select(synced_submissions).where(synced_submissions.c.submission == submission)).all()
    try:
        submission_item = grid.ledger.submission(submission)
    except ItemError as error:  # the index of submissions, from which it was listed, may be older
        warn(error.damaged)
        return 0
    if submission_item is None:
        return 0
    items = list(readable(grid.ledger.jobs(submission), warn))
    lines = Lines.of(grid.storage, grid.bucket, submission_item)
    cancels = grid.ledger.cancels(submission)
    rows = list(run_rows(items, lines, cancels, grid.orchestrator))
    ended_jobs = sum(item.state in FINAL_STATES for item in items)
    delete_rows(connection, runs, runs.c.submission == submission)
    upsert(connection, runs, rows)
    synced = {
        "submission": submission,
        "changed_at": submission_item.changed_at,
        "open_jobs": submission_item.jobs - ended_jobs,
    }
    upsert(connection, synced_submissions, [synced])
    return len(rows)


def _copy_moves(connection: Connection, *, moves: Moves) -> None:
    """Replace the transfers; as in `_replace`, the ledger is read after the database."""
    connection.execute(select(transfers.c.target).limit(1)).all()
    copy_moves(connection, items=list(readable(moves.all(), warn)))

"""Follow: copies single items of the ledger into the catalog, for the function that follows the table's stream.

A sync reads the whole ledger; this reads only the items whose keys it is given. The keys only tell which items have
changed, and the items are read as they are now. So repeated and reordered events do no harm, and a sync repairs the
loss of an event: it reads all submissions that no sync has read to their end.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from sqlalchemy import or_, select

from traingrid.catalog.batches import delete_rows, upsert
from traingrid.catalog.copies import copy_moves
from traingrid.catalog.links import below, link_datasets, price_runs
from traingrid.catalog.registered import add_registered
from traingrid.catalog.run_rows import Lines, run_rows
from traingrid.catalog.tables import replicas, runs
from traingrid.ledger.damage import readable, warn
from traingrid.ledger.errors import ItemError
from traingrid.ledger.items import JOB_PREFIX, SUBMISSION, index_of
from traingrid.names import DATASETS, MOVES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from traingrid.catalog.database import Catalog
    from traingrid.catalog.sync import GridRecords
    from traingrid.ledger.submission_item import Array, SubmissionItem

_Key = TypeVar("_Key")
_GROUP = 50
"""Items of one transaction. Five statements change the rows of a job, so that those of jobs with up to four attempts
fit into one transaction of Aurora DSQL (`ROWS_OF_A_TRANSACTION`), and no query sees runs without dataset or dollars."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Items of the ledger that have changed, by kind.

    Attributes:
        jobs: The indexes of the jobs by submission.
        submissions: Submissions whose own item has changed: lines were submitted, or submitted again.
        datasets: Dataset versions: name and version.
    """

    jobs: Mapping[str, Collection[int]]
    submissions: Collection[str]
    datasets: Collection[tuple[str, str]]
    moves: Collection[str]

    @classmethod
    def of(cls, keys: Iterable[tuple[str, str]]) -> Self:
        """Sort the keys of items, without items that the catalog does not show, such as cancels.

        Args:
            keys: The partition key and the sort key of each item, in any order and number.
        """
        jobs: dict[str, set[int]] = defaultdict(set)
        submissions, datasets, moves = set(), set(), set()
        for submission, item in keys:
            if submission == DATASETS:
                dataset, _, version = item.partition("#")
                datasets.add((dataset, version))
            elif submission == MOVES:
                moves.add(item)
            elif item == SUBMISSION:
                submissions.add(submission)
            elif item.startswith(JOB_PREFIX):
                try:
                    jobs[submission].add(index_of({"submission": submission, "item": item}))
                except ItemError as error:
                    warn(error.damaged)
        return cls(jobs=jobs, submissions=submissions, datasets=datasets, moves=moves)


@dataclass(frozen=True, kw_only=True)
class Followed:
    """The result: the numbers of jobs, dataset versions and copies that were read."""

    jobs: int
    datasets: int
    moves: int


def follow(catalog: Catalog, grid: GridRecords, changes: Changes) -> Followed:
    """Copy changed items of the ledger into the catalog.

    Raises:
        TraingridError: The database does not answer. Running it again with the same changes completes them.
    """
    for versions in _groups(changes.datasets):
        catalog.write(partial(_copy_datasets, grid=grid, versions=versions))
    followed = 0
    for submission in sorted({*changes.jobs, *changes.submissions}):
        lines = _Lines(grid, submission)
        indexes = set(changes.jobs.get(submission, ()))
        if submission in changes.submissions:
            indexes.update(item.index for item in readable(grid.ledger.jobs(submission), warn))
        for jobs in _groups(indexes):
            catalog.write(partial(_copy_jobs, grid=grid, lines=lines, jobs=jobs))
        followed += len(indexes)
    for targets in _groups(changes.moves):
        catalog.write(partial(_copy_moves, grid=grid, targets=targets))
    return Followed(jobs=followed, datasets=len(changes.datasets), moves=len(changes.moves))


class _Lines:
    """The lines of a submission, read again only if another array was submitted."""

    def __init__(self, grid: GridRecords, submission: str) -> None:
        self.submission = submission
        self._grid = grid
        self._arrays: tuple[Array, ...] | None = None
        self._lines = Lines(submitted={}, corrected={})

    def now(self) -> Lines:
        """Return the lines as they are now submitted; empty for a submission without an item."""
        try:
            submission_item = self._grid.ledger.submission(self.submission)
        except ItemError as error:
            warn(error.damaged)
            return self._lines
        if submission_item is not None and submission_item.arrays != self._arrays:
            self._lines = self._read(submission_item)
            self._arrays = submission_item.arrays
        return self._lines

    def _read(self, submission_item: SubmissionItem) -> Lines:
        return Lines.of(self._grid.storage, self._grid.bucket, submission_item)


def _copy_jobs(connection: Connection, *, grid: GridRecords, lines: _Lines, jobs: Sequence[int]) -> None:
    """Replace the rows of jobs of one submission; as in a sync, the ledger is read after the database."""
    same = (runs.c.submission == lines.submission, runs.c.job.in_(jobs))
    connection.execute(select(runs.c.state).where(*same)).all()
    looked_up = (grid.ledger.look_up(lines.submission, index) for index in jobs)
    items = [item for item in readable(looked_up, warn) if item]
    rows = list(run_rows(items, lines.now(), grid.ledger.cancels(lines.submission), grid.orchestrator))
    delete_rows(connection, runs, *same)
    upsert(connection, runs, rows)
    link_datasets(connection, *same)
    price_runs(connection, *same)


def _copy_datasets(connection: Connection, *, grid: GridRecords, versions: Sequence[tuple[str, str]]) -> None:
    """Write the rows of dataset versions, and link the runs that used their data."""
    connection.execute(select(replicas.c.dataset).limit(1)).all()
    looked_up = (grid.datasets.look_up(*version) for version in versions)
    items = [item for item in readable(looked_up, warn) if item]
    if not items:
        return
    add_registered(connection, items=items)
    conditions = [below(region, replica.uri) for item in items for region, replica in item.replicas.items()]
    link_datasets(connection, or_(*conditions))


def _copy_moves(connection: Connection, *, grid: GridRecords, targets: Sequence[str]) -> None:
    """Write the rows of copies, and link the runs that used their data."""
    connection.execute(select(replicas.c.dataset).limit(1)).all()
    items = [item for item in readable(map(grid.moves.look_up, targets), warn) if item]
    if not items:
        return
    copy_moves(connection, items=items, targets=targets)
    link_datasets(connection, or_(*(below(item.region, item.target) for item in items)))


def _groups(keys: Collection[_Key]) -> Iterator[Sequence[_Key]]:
    """Yield keys in groups that one transaction changes."""
    ordered = sorted(keys)  # type: ignore[type-var]  # texts, numbers, or pairs of texts
    for start in range(0, len(ordered), _GROUP):
        yield ordered[start : start + _GROUP]

"""Copies: projects the ledger's copies between Regions into the tables `transfers` and `replicas`."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, select, update

from traingrid.catalog.batches import delete_rows, upsert
from traingrid.catalog.dsql import begin_rows
from traingrid.catalog.tables import replicas, transfer_prices, transfers
from traingrid.deploy.prices import GIGABYTE
from traingrid.ledger.moves import MoveItem

_COPY = "copy"
"""The column `source` of replicas that only the ledger's copies describe."""
_STATES = {"copying": "copying", "copied": "available", "pruning": "removed", "pruned": "removed"}
"""The state of a replica by the state of its copy."""
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


def copy_moves(connection: Connection, *, items: Sequence[MoveItem], targets: Collection[str] | None = None) -> None:
    """Replace the transfers, and bring the replicas that are copies up to date.

    Args:
        connection: A connection in a transaction.
        targets: The folders whose transfers are replaced; None if the items are all copies of the ledger.
    """
    statement = select(transfers) if targets is None else select(transfers).where(transfers.c.target.in_(targets))
    row_by_transfer = {(row.target, row.submission, row.job): row for row in connection.execute(statement)}
    rows = list(_transfers(connection, items, row_by_transfer))
    upsert(connection, transfers, rows)
    for target, submission, job in row_by_transfer.keys() - {
        (row["target"], row["submission"], row["job"]) for row in rows
    }:
        same = (transfers.c.target == target, transfers.c.submission == submission, transfers.c.job == job)
        delete_rows(connection, transfers, *same)
    for item in items:
        _record_copy(connection, item)


def forget_moves(connection: Connection) -> None:
    """Delete the rows that `copy_moves` adds."""
    delete_rows(connection, transfers)
    delete_rows(connection, replicas, replicas.c.source == _COPY)


def _transfers(
    connection: Connection, items: Sequence[MoveItem], row_by_transfer: Mapping[tuple[str, str, int], Row[Any]]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each job that has transferred data; known dollars do not change with the price."""
    prices = {
        (row.from_region, row.to_region): row.dollars_per_gb for row in connection.execute(select(transfer_prices))
    }
    for item in items:
        price = prices.get((item.from_region, item.region))
        for name, size in item.transferred.items():
            submission, _, job = name.rpartition("/")
            stored_row = row_by_transfer.get((item.target, submission, int(job)))
            dollars = stored_row.dollars if stored_row is not None and stored_row.bytes == size else None
            if dollars is None and price is not None:
                dollars = size / GIGABYTE * price
            yield {
                "target": item.target,
                "submission": submission,
                "job": int(job),
                "source": item.source,
                "from_region": item.from_region,
                "to_region": item.region,
                "bytes": size,
                "dollars": dollars,
                "updated_at": datetime.fromisoformat(item.updated_at),
            }


def _record_copy(connection: Connection, item: MoveItem) -> None:
    """Change the state of the replica that a copy is, or add the replica if the source is a known one."""
    at, state = datetime.fromisoformat(item.updated_at), _STATES[item.state]
    replica = _replica(connection, item.region, item.target)
    if replica:
        if (replica.updated_at or _FIRST) < at:
            begin_rows(connection, 1)
            change = update(replicas).where(*_key(replica, item.region)).values(state=state, updated_at=at)
            connection.execute(change)
        return
    source = _replica(connection, item.from_region, item.source)
    if source is None or state == "removed":
        return
    row_in_region = connection.execute(select(replicas).where(*_key(source, item.region))).first()
    if row_in_region is None or (row_in_region.source, row_in_region.state) == (_COPY, "removed"):
        row = {"dataset": source.dataset, "version": source.version, "region": item.region, "uri": item.target}
        facts = {"bytes": item.bytes, "objects": item.objects, "state": state, "updated_at": at, "source": _COPY}
        upsert(connection, replicas, [{**row, **facts}])


def _replica(connection: Connection, region: str, uri: str) -> Row[Any] | None:
    """Return the replica in a folder, whose imported URI may end with a slash."""
    has_uri = replicas.c.uri.in_([uri, f"{uri}/"])
    return connection.execute(select(replicas).where(replicas.c.region == region, has_uri)).first()


def _key(replica: Row[Any], region: str) -> tuple[Any, ...]:
    """Return the condition for the replica of a dataset version in a Region."""
    same = (replicas.c.dataset == replica.dataset, replicas.c.version == replica.version)
    return (*same, replicas.c.region == region)

"""Price snapshot: dated prices that are part of traingrid, for a catalog without access to AWS.

The folder `snapshot` has a file for each table. The source of every row begins with "snapshot" and names a public
document. `as_of` is the day of which the document states the price, or the first day if it names a month.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from traingrid.catalog.batches import upsert
from traingrid.catalog.import_rows import rows_of
from traingrid.catalog.tables import prices, transfer_prices

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from sqlalchemy import Connection, Table

    from traingrid.catalog.database import Catalog

_FOLDER = Path(__file__).parent / "snapshot"
_TABLES = (prices, transfer_prices)


@dataclass(frozen=True, kw_only=True)
class SnapshotImport:
    """The result of importing the snapshot.

    Attributes:
        written: Number of rows that were written.
        kept: Number of rows that were not, because the catalog has prices of the same day or a later one.
        oldest: The first day of the snapshot's prices.
    """

    written: int
    kept: int
    oldest: date
    newest: date


def snapshot_rows(table: Table) -> list[dict[str, Any]]:
    """Return the snapshot's rows of a table, `prices` or `transfer_prices`."""
    return rows_of(_FOLDER / f"{table.name}.csv", table.name)


def import_snapshot(catalog: Catalog) -> SnapshotImport:
    """Write the snapshot's prices in one transaction, except for those that are no later than the catalog's.

    Raises:
        TraingridError: The database does not answer.
    """
    shipped = {table: snapshot_rows(table) for table in _TABLES}
    written_rows = dict.fromkeys(_TABLES, 0)

    def change(connection: Connection) -> None:
        for table, rows in shipped.items():
            days = _days(connection, table)
            later = [row for row in rows if _key(table, row) not in days or row["as_of"] > days[_key(table, row)]]
            upsert(connection, table, later)
            written_rows[table] = len(later)

    catalog.write(change)
    every_day = [row["as_of"] for rows in shipped.values() for row in rows]
    total = sum(written_rows.values())
    return SnapshotImport(written=total, kept=len(every_day) - total, oldest=min(every_day), newest=max(every_day))


def _days(connection: Connection, table: Table) -> dict[tuple[Any, ...], date]:
    """Return the days of a table's prices by primary key."""
    rows = connection.execute(select(*table.primary_key, table.c.as_of))
    return {tuple(values[:-1]): values[-1] for values in rows}


def _key(table: Table, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[column.name] for column in table.primary_key)

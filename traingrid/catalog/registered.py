"""Registered datasets: copies the ledger's datasets into the tables `campaigns`, `datasets` and `replicas`."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from traingrid.catalog.batches import delete_rows, upsert
from traingrid.catalog.tables import campaigns, datasets, replicas
from traingrid.ledger.damage import readable, warn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from traingrid.catalog.database import Catalog
    from traingrid.ledger.datasets import DatasetItem, Datasets

_REGISTERED = "registration"
"""The column `source` of rows from the ledger."""


def copy_registered(catalog: Catalog, registered: Datasets) -> int:
    """Add the registered replicas that the catalog does not have, and return their number.

    A registered version does not change, so a row that exists is current; only its state may have changed since.

    Raises:
        TraingridError: The database does not answer.
    """
    known_replicas = select(replicas.c.dataset, replicas.c.version, replicas.c.region)
    with catalog.read_only() as connection:
        stored_keys = {tuple(row) for row in connection.execute(known_replicas.where(replicas.c.source == _REGISTERED))}
    new = [
        item
        for item in readable(registered.all(), warn)
        if any((item.dataset, item.version, region) not in stored_keys for region in item.replicas)
    ]
    if new:
        catalog.write(partial(add_registered, items=new))
    return sum((item.dataset, item.version, region) not in stored_keys for item in new for region in item.replicas)


def forget_registered(connection: Connection) -> None:
    """Delete the rows that `copy_registered` adds, except the rows of campaigns."""
    for table in (replicas, datasets):
        delete_rows(connection, table, table.c.source == _REGISTERED)


def add_registered(connection: Connection, *, items: Iterable[DatasetItem]) -> None:
    """Write the rows of registered dataset versions."""
    items = list(items)
    # An imported campaign has hyperparameters and attributes, which the row of a new campaign must not replace.
    upsert(connection, campaigns, [{"campaign": name} for name in sorted({item.campaign for item in items} - {""})])
    upsert(connection, datasets, [_dataset(item) for item in items])
    upsert(connection, replicas, [row for item in items for row in _replicas(item)])


def _dataset(item: DatasetItem) -> dict[str, Any]:
    return {
        "dataset": item.dataset,
        "version": item.version,
        "campaign": item.campaign,
        "bytes": item.bytes,
        "objects": item.objects,
        "format": item.format,
        "attributes": dict(item.attributes),
        "created_at": datetime.fromisoformat(item.created_at or _first_registered(item)),
        "source": _REGISTERED,
    }


def _first_registered(item: DatasetItem) -> str:
    return min(replica.registered_at for replica in item.replicas.values())


def _replicas(item: DatasetItem) -> Iterable[dict[str, Any]]:
    for region, replica in item.replicas.items():
        yield {
            "dataset": item.dataset,
            "version": item.version,
            "region": region,
            "uri": replica.uri,
            "bytes": item.bytes,
            "objects": item.objects,
            "updated_at": datetime.fromisoformat(replica.registered_at),
            "source": _REGISTERED,
        }

"""Facts: reads prices, capacity, replicas and past runs from the catalog, as a plan needs them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from traingrid.catalog.tables import capacity, datasets, prices, replicas, runs, transfer_prices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from traingrid.catalog.database import Catalog
    from traingrid.planner.pool_keys import PoolKey

_AVAILABLE, _COMPLETED = "available", "Completed"


@dataclass(frozen=True, kw_only=True)
class Price:
    """A price in dollars, of an instance-hour or of the transfer of a GB.

    Attributes:
        source: Where it comes from.
    """

    dollars: float
    as_of: date
    source: str


@dataclass(frozen=True, kw_only=True)
class PaidPlan:
    """The instances of a SageMaker training plan, which are paid in advance.

    Attributes:
        instances: The number of instances that are left.
        starts_at: The time at which they become available, or None if they are.
        ends_at: The time at which the reservation ends, or None if it is unknown.
    """

    instances: int
    starts_at: datetime | None
    ends_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class DatasetReplica:
    """A dataset version in one Region.

    Attributes:
        size: The bytes, or None if they are unknown.
        objects: The number of objects, or None if it is unknown.
    """

    dataset: str
    version: str
    region: str
    uri: str
    size: int | None
    objects: int | None


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """A completed run.

    Attributes:
        recipe: The recipe of its job (traingrid/job/recipe.py).
        seconds: The seconds of training.
        size: The bytes of its dataset version, or None if they are unknown.
    """

    recipe: str
    instance_type: str
    seconds: int
    size: int | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The contents of the catalog that a plan uses.

    Attributes:
        prices: The prices of an instance-hour, by pool.
        transfer: The prices of the transfer of a GB, by source and destination Region.
        instances: The instances that may run at once, by pool.
        plans: The training plans, by pool. Their hours have a price of 0, because they are paid in advance.
        replicas: The available replicas, by Region and URI without a slash at its end.
        versions: The available replicas of a dataset version, by dataset, version and Region.
    """

    prices: Mapping[PoolKey, Price]
    transfer: Mapping[tuple[str, str], Price]
    instances: Mapping[PoolKey, int]
    plans: Mapping[PoolKey, PaidPlan]
    replicas: Mapping[tuple[str, str], DatasetReplica]
    versions: Mapping[tuple[str, str], Mapping[str, DatasetReplica]]
    runs: tuple[PastRun, ...]


def read_facts(catalog: Catalog) -> Facts:
    """Return the facts of a catalog.

    Raises:
        TraingridError: The database does not answer.
    """
    with catalog.read_only() as connection:
        replicas = _replicas(connection)
        versions: dict[tuple[str, str], dict[str, DatasetReplica]] = {}
        for replica in replicas:
            versions.setdefault((replica.dataset, replica.version), {})[replica.region] = replica
        capacities = connection.execute(select(capacity)).all()
        plans = {_pool(row): row for row in capacities if row.training_plan}
        return Facts(
            prices={
                (row.region, row.instance_type, row.purchase_option): _price(row.dollars_per_hour, row)
                for row in connection.execute(select(prices))
            }
            | {key: _price(0.0, row) for key, row in plans.items()},
            transfer={
                (row.from_region, row.to_region): _price(row.dollars_per_gb, row)
                for row in connection.execute(select(transfer_prices))
            },
            instances={_pool(row): row.instances for row in capacities},
            plans={
                key: PaidPlan(instances=row.instances, starts_at=row.starts_at, ends_at=row.ends_at)
                for key, row in plans.items()
            },
            replicas={(replica.region, replica.uri.rstrip("/")): replica for replica in replicas},
            versions=versions,
            runs=_runs(connection),
        )


def _price(dollars: float, row: object) -> Price:
    return Price(dollars=dollars, as_of=row.as_of, source=row.source)  # type: ignore[attr-defined]  # a row of a table


def _pool(row: Any) -> PoolKey:
    """Return the pool of a row of the table `capacity`."""
    return row.region, row.instance_type, row.training_plan or row.purchase_option


def _replicas(connection: Connection) -> list[DatasetReplica]:
    columns = (replicas, datasets.c.bytes.label("of_version"))
    versions = replicas.join(
        datasets, (datasets.c.dataset == replicas.c.dataset) & (datasets.c.version == replicas.c.version), isouter=True
    )
    order = (replicas.c.dataset, replicas.c.version, replicas.c.region)
    rows = connection.execute(
        select(*columns).select_from(versions).where(replicas.c.state == _AVAILABLE).order_by(*order)
    )
    return [
        DatasetReplica(
            dataset=row.dataset,
            version=row.version,
            region=row.region,
            uri=row.uri,
            size=row.of_version if row.bytes is None else row.bytes,
            objects=row.objects,
        )
        for row in rows
    ]


def _runs(connection: Connection) -> tuple[PastRun, ...]:
    joined = runs.join(
        datasets, (datasets.c.dataset == runs.c.dataset) & (datasets.c.version == runs.c.version), isouter=True
    )
    columns = (runs.c.recipe, runs.c.instance_type, runs.c.seconds, datasets.c.bytes)
    is_comparable = (runs.c.state == _COMPLETED) & (runs.c.recipe != "") & (runs.c.seconds > 0)
    order = (runs.c.submission, runs.c.job, runs.c.attempt)
    rows = connection.execute(select(*columns).select_from(joined).where(is_comparable).order_by(*order))
    return tuple(
        PastRun(recipe=row.recipe, instance_type=row.instance_type, seconds=row.seconds, size=row.bytes) for row in rows
    )

"""Tables of the catalog, in a form that SQLite, PostgreSQL and Aurora DSQL share.

Aurora DSQL has no foreign keys
(https://docs.aws.amazon.com/aurora-dsql/latest/userguide/working-with-postgresql-compatibility-unsupported-features.html),
so tables are joined by columns of the same name. Mappings are JSON in text columns, which all three can store and read.
An integer in a primary key sets `autoincrement=False`, because a dialect may otherwise generate its values.
"""

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Date, DateTime, Dialect, Double, Index, Integer, MetaData, Table, Text
from sqlalchemy.types import TypeDecorator

from traingrid.strict_json import json_object

metadata = MetaData()


class JsonText(TypeDecorator[Any]):
    """A mapping, stored as JSON text with sorted keys; `column::jsonb` and `json_extract` read its entries in SQL."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> str:
        """Return the text to store."""
        return json.dumps(value or {}, sort_keys=True)

    def process_result_value(self, value: Any, _dialect: Dialect) -> Any:
        """Return the stored mapping."""
        return json_object(value, "a mapping in a column of the catalog") if value else {}


class UtcTime(TypeDecorator[datetime]):
    """A time with a time zone; SQLite, which has no such type, stores it in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Return the time in UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Return the stored time in UTC."""
        if value is None or value.tzinfo:
            return value
        return value.replace(tzinfo=UTC)


def _text(name: str, *, key: bool = False) -> Column[str]:
    return Column(name, Text, primary_key=key, nullable=False, server_default=None if key else "")


def _mapping(name: str) -> Column[Any]:
    return Column(name, JsonText, nullable=False, server_default="{}")


campaigns = Table(
    "campaigns",
    metadata,
    _text("campaign", key=True),
    _text("description"),
    _mapping("hyperparameters"),
    _mapping("attributes"),
    Column("created_at", UtcTime),
)
"""Campaigns: `hyperparameters` are those of a campaign's training jobs, `attributes` any other facts."""

datasets = Table(
    "datasets",
    metadata,
    _text("dataset", key=True),
    _text("version", key=True),
    _text("campaign"),
    Column("bytes", BigInteger),
    Column("objects", BigInteger),
    _text("format"),
    _mapping("attributes"),
    Column("created_at", UtcTime),
    _text("source"),
)
"""Versions of datasets. `source` is "import" for a row of `traingrid catalog import`."""

replicas = Table(
    "replicas",
    metadata,
    _text("dataset", key=True),
    _text("version", key=True),
    _text("region", key=True),
    Column("uri", Text, nullable=False),
    Column("bytes", BigInteger),
    Column("objects", BigInteger),
    Column("state", Text, nullable=False, server_default="available"),
    Column("updated_at", UtcTime),
    _text("source"),
)
"""Copies of dataset versions by Region. `uri` is the folder of the channels; `state` is "available", "copying",
"missing" or "removed"."""

prices = Table(
    "prices",
    metadata,
    _text("region", key=True),
    _text("instance_type", key=True),
    _text("purchase_option", key=True),
    Column("dollars_per_hour", Double, nullable=False),
    Column("as_of", Date, nullable=False),
    _text("source"),
)
"""Prices of one instance in US dollars per hour; `purchase_option` is "on_demand" or "spot"."""

transfer_prices = Table(
    "transfer_prices",
    metadata,
    _text("from_region", key=True),
    _text("to_region", key=True),
    Column("dollars_per_gb", Double, nullable=False),
    Column("as_of", Date, nullable=False),
    _text("source"),
)
"""Prices of data transfer between Regions in US dollars per GB."""

capacity = Table(
    "capacity",
    metadata,
    _text("region", key=True),
    _text("instance_type", key=True),
    _text("purchase_option", key=True),
    _text("training_plan", key=True),
    Column("instances", Integer, nullable=False),
    Column("starts_at", UtcTime),
    Column("ends_at", UtcTime),
    Column("as_of", Date, nullable=False),
    _text("source"),
)
"""Instances that an account may use at once: its quota, with an empty `training_plan`, or the instances that a
SageMaker training plan reserves from `starts_at` to `ends_at`."""

runs = Table(
    "runs",
    metadata,
    _text("submission", key=True),
    Column("job", Integer, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    _text("name"),
    _text("campaign"),
    _text("dataset"),
    _text("version"),
    _text("region"),
    _text("uri"),
    _text("instance_type"),
    Column("instances", Integer),
    _text("purchase_option"),
    _text("state"),
    _text("failure"),
    _text("reason"),
    Column("opened_at", UtcTime),
    Column("updated_at", UtcTime),
    Column("seconds", Integer),
    Column("billable_seconds", Integer),
    Column("top1", Double),
    _mapping("metrics"),
    _mapping("hyperparameters"),
    _text("recipe"),
    Column("estimated_dollars", Double),
    Column("actual_dollars", Double),
    Column("dollars", Double),
    Column("orchestration_dollars", Double),
    _mapping("tags"),
    _text("artifact"),
    _text("training_job"),
)
"""Attempts of jobs. `job` is the index in the submission; `uri` is the job's first channel; `top1` is the metric
validation_top1; `dollars` is `actual_dollars`, or `estimated_dollars` before those are known. `orchestration_dollars`
is the cost of the Batch child, which is not part of them."""

transfers = Table(
    "transfers",
    metadata,
    _text("target", key=True),
    _text("submission", key=True),
    Column("job", Integer, primary_key=True, autoincrement=False),
    _text("source"),
    _text("from_region"),
    _text("to_region"),
    Column("bytes", BigInteger, nullable=False),
    Column("dollars", Double),
    Column("updated_at", UtcTime),
)
"""Data that jobs have copied from the folder `source` in `from_region` to the folder `target` in `to_region`, in bytes.
`dollars` is the cost of the transfer at its price in `transfer_prices`."""

synced_submissions = Table(
    "synced_submissions",
    metadata,
    _text("submission", key=True),
    Column("changed_at", BigInteger, nullable=False),
    Column("open_jobs", Integer, nullable=False),
)
"""How far `traingrid catalog sync` has read the ledger: the time of a submission's last change in seconds since 1970,
and the number of its jobs that had not ended."""

Index("datasets_of_campaign", datasets.c.campaign)
Index("replicas_of_region", replicas.c.region)
Index("runs_of_campaign", runs.c.campaign)
Index("runs_of_dataset", runs.c.dataset, runs.c.version)

IMPORTED = {table.name: table for table in (campaigns, datasets, replicas, prices, transfer_prices, capacity)}
"""The tables that `traingrid catalog import` fills; `runs` and `transfers` come from the ledger only."""

"""The first tables.

Migrations do not import `traingrid.catalog.tables`, which describes the newest form of the tables.
"""

import sqlalchemy as sa

from traingrid.catalog.ddl import create_index, create_table

revision = "0001"
down_revision = None


def _text(name: str, *, key: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, primary_key=key, nullable=False, server_default=None if key else "")


def _mapping(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default="{}")


def _time(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True))


def upgrade() -> None:
    """Create the tables and indexes."""
    _create_data()
    _create_prices()
    _create_runs()
    create_index("datasets_of_campaign", "datasets", ["campaign"])
    create_index("replicas_of_region", "replicas", ["region"])
    create_index("runs_of_campaign", "runs", ["campaign"])
    create_index("runs_of_dataset", "runs", ["dataset", "version"])


def _create_data() -> None:
    create_table(
        "campaigns",
        _text("campaign", key=True),
        _text("description"),
        _mapping("hyperparameters"),
        _mapping("attributes"),
        _time("created_at"),
    )
    create_table(
        "datasets",
        _text("dataset", key=True),
        _text("version", key=True),
        _text("campaign"),
        sa.Column("bytes", sa.BigInteger),
        sa.Column("objects", sa.BigInteger),
        _text("format"),
        _mapping("attributes"),
        _time("created_at"),
        _text("source"),
    )
    create_table(
        "replicas",
        _text("dataset", key=True),
        _text("version", key=True),
        _text("region", key=True),
        sa.Column("uri", sa.Text, nullable=False),
        sa.Column("bytes", sa.BigInteger),
        sa.Column("objects", sa.BigInteger),
        sa.Column("state", sa.Text, nullable=False, server_default="available"),
        _time("updated_at"),
        _text("source"),
    )


def _create_prices() -> None:
    create_table(
        "prices",
        _text("region", key=True),
        _text("instance_type", key=True),
        _text("purchase_option", key=True),
        sa.Column("dollars_per_hour", sa.Double, nullable=False),
        sa.Column("as_of", sa.Date, nullable=False),
        _text("source"),
    )
    create_table(
        "transfer_prices",
        _text("from_region", key=True),
        _text("to_region", key=True),
        sa.Column("dollars_per_gb", sa.Double, nullable=False),
        sa.Column("as_of", sa.Date, nullable=False),
        _text("source"),
    )
    create_table(
        "capacity",
        _text("region", key=True),
        _text("instance_type", key=True),
        _text("purchase_option", key=True),
        _text("training_plan", key=True),
        sa.Column("instances", sa.Integer, nullable=False),
        _time("starts_at"),
        _time("ends_at"),
        sa.Column("as_of", sa.Date, nullable=False),
        _text("source"),
    )


def _create_runs() -> None:
    create_table(
        "runs",
        _text("submission", key=True),
        sa.Column("job", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        *map(_text, ("name", "campaign", "dataset", "version", "region", "uri", "instance_type")),
        sa.Column("instances", sa.Integer),
        *map(_text, ("purchase_option", "state", "failure", "reason")),
        *map(_time, ("opened_at", "updated_at")),
        sa.Column("seconds", sa.Integer),
        sa.Column("billable_seconds", sa.Integer),
        sa.Column("top1", sa.Double),
        *map(_mapping, ("metrics", "hyperparameters")),
        *(sa.Column(name, sa.Double) for name in ("estimated_dollars", "actual_dollars", "dollars")),
        *map(_text, ("artifact", "training_job")),
    )
    create_table(
        "synced_submissions",
        _text("submission", key=True),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("open_jobs", sa.Integer, nullable=False),
    )

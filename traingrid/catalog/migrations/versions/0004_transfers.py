"""The transfers of copies between Regions, which are part of the cost of jobs."""

import sqlalchemy as sa

from traingrid.catalog.ddl import create_table

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table; the next sync fills it."""
    create_table(
        "transfers",
        sa.Column("target", sa.Text, primary_key=True),
        sa.Column("submission", sa.Text, primary_key=True),
        sa.Column("job", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("source", sa.Text, nullable=False, server_default=""),
        sa.Column("from_region", sa.Text, nullable=False, server_default=""),
        sa.Column("to_region", sa.Text, nullable=False, server_default=""),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("dollars", sa.Double),
        sa.Column("updated_at", sa.DateTime(timezone=True)),
    )

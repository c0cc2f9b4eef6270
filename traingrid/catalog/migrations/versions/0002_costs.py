"""The cost of orchestration, and the tags of jobs, by which costs are grouped."""

import sqlalchemy as sa

from traingrid.catalog.ddl import add_column

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns; `traingrid catalog rebuild` fills those of earlier runs."""
    add_column("runs", sa.Column("orchestration_dollars", sa.Double))
    add_column("runs", sa.Column("tags", sa.Text, nullable=False, server_default="{}"))

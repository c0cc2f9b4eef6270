"""The recipe of a run, by which a plan finds past runs."""

import sqlalchemy as sa
from alembic import op

from traingrid.catalog.ddl import add_column

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column, and forget how far the ledger was read, so that the next sync fills it."""
    add_column("runs", sa.Column("recipe", sa.Text, nullable=False, server_default=""))
    op.execute(sa.text("DELETE FROM synced_submissions"))

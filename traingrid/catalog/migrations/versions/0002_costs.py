"""The cost of orchestration, and the tags of jobs, by which costs are grouped."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns; `traingrid catalog rebuild` fills those of earlier runs."""
    op.add_column("runs", sa.Column("orchestration_dollars", sa.Double))
    op.add_column("runs", sa.Column("tags", sa.Text, nullable=False, server_default="{}"))

"""Alembic's environment: runs the migrations on the connection of `Catalog.create`."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()

"""Entry point of alembic, which runs this file for every command; uses the open connection."""

from alembic import context

from cse_platform.leaderboard.upgrade import migration_options

context.configure(connection=context.config.attributes["connection"], **migration_options())
with context.begin_transaction():
    context.run_migrations()

"""Run by Alembic for each upgrade; the one way in is `shared.schema.history`."""

from alembic import context

from shared.schema.tables import metadata
from shared.schema.tables.base import SCHEMA

given = context.config.attributes

if context.is_offline_mode():
    context.configure(
        dialect_name="postgresql",
        dialect_opts={"paramstyle": "named"},  # with the driver's own every % would be doubled
        target_metadata=metadata,
        version_table_schema=SCHEMA,
        output_buffer=given["output"],
        transactional_ddl=False,  # the script has its own transaction around it
    )
else:
    context.configure(
        connection=given["connection"], target_metadata=metadata, version_table_schema=SCHEMA
    )

context.run_migrations()

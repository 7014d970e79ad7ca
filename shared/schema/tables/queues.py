"""Queues that have rules of their own."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from shared.schema.tables.base import instant, metadata, tenant

queues = Table(
    "queues",
    metadata,
    tenant(),
    Column("name", Text, nullable=False),
    Column("retries_max", Integer, nullable=False),
    Column("retry_delays_ms", ARRAY(BigInteger), nullable=False),
    Column("retry_cap_ms", BigInteger, nullable=True),
    Column("retry_jitter_percent", SmallInteger, nullable=False, server_default=text("0")),
    Column("lease_ms", BigInteger, nullable=False),
    instant("created_at", now=True),
    instant("changed_at", now=True),
    instant("paused_at", nullable=True),
    PrimaryKeyConstraint("tenant", "name"),
    CheckConstraint("retries_max >= 0", name="retries_max"),
    CheckConstraint(
        "cardinality(retry_delays_ms) > 0 AND 0 <= ALL (retry_delays_ms)", name="retry_delays_ms"
    ),
    CheckConstraint("retry_cap_ms > 0", name="retry_cap_ms"),
    CheckConstraint("retry_jitter_percent BETWEEN 0 AND 100", name="retry_jitter_percent"),
    CheckConstraint("lease_ms > 0", name="lease_ms"),
)
"""Declared queues, never deleted; one that is not here goes by the dispatcher's settings.

The last of the delays repeats; with a cap it doubles up to that (Q7).
"""

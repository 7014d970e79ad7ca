"""Facts about the database itself, request ids and the audit trail."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from shared.schema.tables.base import identity, instant, metadata, tenant

schema_revision = Table(
    "schema_revision",
    metadata,
    Column(
        "singleton", SmallInteger, primary_key=True, server_default=text("1"), autoincrement=False
    ),
    Column("revision", Integer, nullable=False),
    Column("oldest_code", Integer, nullable=False),
    instant("migrated_at", now=True),
    CheckConstraint("singleton = 1", name="singleton"),
)
"""One row: the schema's revision and the oldest code that may run on it (X3)."""

incarnations = Table(
    "incarnations",
    metadata,
    identity("incarnation"),
    Column("system_identifier", Text, nullable=False),
    Column("timeline", Integer, nullable=False),
    Column("database_oid", BigInteger, nullable=False),
    instant("observed_at", now=True),
)
"""Which copy of the database this is: the newest row is compared with the server's word (P12)."""

request_ids = Table(
    "request_ids",
    metadata,
    tenant(),
    Column("method", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("response", LargeBinary, nullable=False),
    instant("created_at", now=True),
    PrimaryKeyConstraint("tenant", "method", "request_id"),
    Index(None, "created_at"),
)
"""Answers of mutations without a natural key, kept in their own transaction."""

audit_entries = Table(
    "audit_entries",
    metadata,
    identity("entry_id"),
    tenant(),
    instant("at", now=True),
    Column("key_id", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=text("''")),
    Column("detail", JSONB, nullable=False, server_default=text("'{}'")),
    Index(None, "tenant", "at"),
)
"""Every operator action; no role may change or delete a row. Tenant '*' stands for all."""

"""Durable state of runs, their flushes and the worker's spans."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from shared.schema.states import AnalysisStatus
from shared.schema.tables.base import identity, instant, metadata, one_of, tenant

runs = Table(
    "runs",
    metadata,
    identity("run_id"),
    tenant(),
    Column("key", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("intent_id", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("flush_id", Text, nullable=False),
    Column("state", LargeBinary, nullable=False),
    Column("state_schema_version", Integer, nullable=False),
    Column("state_codec", Text, nullable=False, server_default=text("''")),
    Column("event_cursor", BigInteger, nullable=False, server_default=text("0")),
    Column("phase", Text, nullable=False, server_default=text("''")),
    Column("analysis_status", Text, nullable=False),
    Column("final", Boolean, nullable=False, server_default=text("false")),
    instant("started_at", now=True),
    instant("flushed_at", now=True),
    UniqueConstraint("tenant", "key", "action", "generation"),
    one_of("analysis_status", AnalysisStatus),
    CheckConstraint("version >= 1", name="version"),
    Index(None, "intent_id"),
)
"""Latest checkpoint of the work on (key, action, generation); it outlives attempts.

`intent_id` and `epoch` name the dispatch that made the latest version.
"""

flushes = Table(
    "flushes",
    metadata,
    tenant(),
    Column("run_id", BigInteger, ForeignKey(runs.c.run_id), nullable=False),
    Column("flush_id", Text, nullable=False),
    Column("request_sha256", LargeBinary, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("state_bytes", BigInteger, nullable=False),
    Column("span_count", Integer, nullable=False),
    Column("phase", Text, nullable=False, server_default=text("''")),
    Column("final", Boolean, nullable=False),
    instant("flushed_at", now=True),
    PrimaryKeyConstraint("run_id", "flush_id"),
    Index(None, "run_id", "version", unique=True),
)
"""Stored acknowledgements: a repeated flush is answered from here (C2)."""

run_spans = Table(
    "run_spans",
    metadata,
    identity("span_seq"),
    tenant(),
    Column("intent_id", BigInteger, nullable=False),
    Column("trace_id", LargeBinary, nullable=False),
    Column("span_id", LargeBinary, nullable=False),
    Column("service_name", Text, nullable=False),
    Column("otlp_span", LargeBinary, nullable=False),
    instant("stored_at", now=True),
    instant("exported_at", nullable=True),
    UniqueConstraint("tenant", "trace_id", "span_id"),
    Index(None, "span_seq", postgresql_where=text("exported_at IS NULL")),
    Index(None, "intent_id"),
)
"""The worker's finished spans, stored once and exported at least once with the same ids (C7)."""

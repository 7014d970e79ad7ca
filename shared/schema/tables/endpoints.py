"""Where deliveries come from, and the sealed secrets that prove it."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from shared.schema.tables.base import instant, metadata, tenant

endpoints = Table(
    "endpoints",
    metadata,
    tenant(),
    Column("name", Text, nullable=False),
    Column("forge", Text, nullable=False),
    Column("forge_instance", Text, nullable=False),
    Column("proof", Text, nullable=False),
    Column("routes", JSONB, nullable=False),
    Column("bot_ids", ARRAY(BigInteger), nullable=False),
    Column("trusted_ids", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    Column("wanted_events", ARRAY(Text), nullable=False),
    Column("drafts", Text, nullable=False),
    Column("body_limit_bytes", BigInteger, nullable=False, server_default=text("0")),
    instant("created_at", now=True),
    instant("changed_at", now=True),
    instant("disabled_at", nullable=True),
    PrimaryKeyConstraint("tenant", "name"),
    CheckConstraint("forge IN ('forgejo', 'gitea', 'github', 'gitlab')", name="forge"),
    CheckConstraint("proof = 'signature' OR proof = 'token' AND forge = 'gitlab'", name="proof"),
    CheckConstraint("jsonb_array_length(routes) > 0", name="routes"),
    CheckConstraint("drafts IN ('ignore', 'take')", name="drafts"),
    CheckConstraint("body_limit_bytes >= 0", name="body_limit_bytes"),
)
"""Endpoints, never deleted: a name stays its tenant's. No limit of its own (0): the service's."""

endpoint_secrets = Table(
    "endpoint_secrets",
    metadata,
    tenant(),
    Column("endpoint", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("sealing_key_id", Text, nullable=False),
    Column("wrapped_key", LargeBinary, nullable=False),
    Column("ciphertext", LargeBinary, nullable=False),
    instant("live_from", now=True),
    instant("live_until", nullable=True),
    PrimaryKeyConstraint("tenant", "endpoint", "version"),
    ForeignKeyConstraint(["tenant", "endpoint"], [endpoints.c.tenant, endpoints.c.name]),
    CheckConstraint("version >= 1", name="version"),
    CheckConstraint("octet_length(wrapped_key) = 60", name="wrapped_key"),
    Index(
        "endpoint_secrets_newest_key",
        "tenant",
        "endpoint",
        unique=True,
        postgresql_where=text("live_until IS NULL"),
    ),
)
"""Webhook secrets, sealed (K1): one newest for each endpoint, older ones until they end (I5)."""

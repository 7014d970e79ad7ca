"""The ledger of outside effects, and holds on it."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from shared.schema.states import ATTEMPTS_THAT_BLOCK, AttemptStatus
from shared.schema.tables.base import identity, instant, metadata, one_of, tenant

_BLOCKING = ", ".join(f"'{status}'" for status in ATTEMPTS_THAT_BLOCK)

publications = Table(
    "publications",
    metadata,
    identity("publication_id"),
    tenant(),
    Column("key", Text, nullable=False),
    Column("key_label", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("intent_id", BigInteger, nullable=False),
    instant("created_at", now=True),
    UniqueConstraint(
        "tenant",
        "key",
        "action",
        "generation",
        "name",
        "kind",
        "target",
        "ordinal",
        name="publications_identity_key",
    ),
    Index(None, "intent_id"),
    Index(None, "tenant", "key"),
)
"""Identities of mutations of a remote system (P2)."""

publication_attempts = Table(
    "publication_attempts",
    metadata,
    identity("attempt_id"),
    tenant(),
    Column(
        "publication_id",
        BigInteger,
        ForeignKey(publications.c.publication_id),
        nullable=False,
    ),
    Column("attempt", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("intent_id", BigInteger, nullable=False),
    Column("claim_token", Text, nullable=False),
    Column("checkpoint_version", BigInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("evidence", Text, nullable=False),
    instant("claimed_at", now=True),
    instant("settled_at", nullable=True),
    Column("remote_id", Text),
    Column("remote_url", Text),
    Column("result", LargeBinary),
    Column("detail", Text, nullable=False, server_default=text("''")),
    Column("traceparent", Text, nullable=False, server_default=text("''")),
    one_of("status", AttemptStatus),
    UniqueConstraint("publication_id", "attempt"),
    CheckConstraint("(status = 'running') = (settled_at IS NULL)", name="settled"),
    CheckConstraint("octet_length(digest) = 32", name="digest"),
    CheckConstraint("checkpoint_version >= 1", name="checkpoint_version"),
    Index(
        "publication_attempts_blocking_key",
        "publication_id",
        unique=True,
        postgresql_where=text(f"status IN ({_BLOCKING})"),
    ),
    Index(
        "publication_attempts_in_doubt_idx",
        "tenant",
        postgresql_where=text("status IN ('running', 'uncertain')"),
    ),
)
"""Attempts to send a publication, with the request as it is sent and what came of it.

The claim token is known to the claimant alone: only it may complete a running attempt, also
after the lease changed hands (P5).
"""

holds = Table(
    "holds",
    metadata,
    identity("hold_id"),
    Column("tenant", Text),
    Column("action", Text),
    Column("forge_instance", Text),
    Column("repo_id", BigInteger),
    Column("number", BigInteger),
    Column("reason", Text, nullable=False),
    Column("placed_by", Text, nullable=False),
    instant("placed_at", now=True),
    Column("released_by", Text),
    instant("released_at", nullable=True),
    CheckConstraint("num_nulls(forge_instance, repo_id) IN (0, 2)", name="repo"),
    CheckConstraint("number IS NULL OR repo_id IS NOT NULL", name="number"),
    CheckConstraint(
        "num_nulls(released_by, released_at) IN (0, 2)",
        name="released",
    ),
    Index(None, "tenant", postgresql_where=text("released_at IS NULL")),
)
"""Holds on publications (P11): a column that is null holds every value of it."""

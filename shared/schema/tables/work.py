"""Work: intents, where open ones wait, leases, dispatches and worker sessions."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from shared.schema.states import (
    INTENTS_THAT_OCCUPY,
    DispatchOutcome,
    Disposition,
    IntentStatus,
    LeaseState,
    SessionState,
    WaitsOn,
)
from shared.schema.tables.base import identity, instant, lock_only, metadata, one_of, tenant

_OCCUPYING = ", ".join(f"'{status}'" for status in INTENTS_THAT_OCCUPY)

ready_number = Sequence("ready_number", metadata=metadata, data_type=BigInteger, cache=1)
"""Order of the ready table. Cache 1: a number is drawn by a transaction that has its xid (Q11)."""

intents = Table(
    "intents",
    metadata,
    identity("intent_id"),
    tenant(),
    Column("queue", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False, server_default=text("0")),
    Column("key", Text, nullable=False),
    Column("key_label", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("forge_instance", Text),
    Column("repo_id", BigInteger),
    Column("number", BigInteger),
    Column("head_sha", Text),
    Column("suffix", Text, nullable=False, server_default=text("''")),
    Column("delivery_seq", BigInteger),
    Column("payload", LargeBinary),
    Column("content_type", Text, nullable=False),
    Column("schema_name", Text, nullable=False, server_default=text("''")),
    Column("traceparent", Text, nullable=False, server_default=text("''")),
    instant("created_at", now=True),
    Column("status", Text, nullable=False, server_default=text("'open'")),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    instant("settled_at", nullable=True),
    Column("settled_by", BigInteger),
    Column("reason", Text, nullable=False, server_default=text("''")),
    Column("result", LargeBinary),
    one_of("status", IntentStatus),
    CheckConstraint("(status = 'open') = (settled_at IS NULL)", name="settled"),
    CheckConstraint("(payload IS NULL) = (delivery_seq IS NOT NULL)", name="payload"),
    CheckConstraint(
        "num_nulls(forge_instance, repo_id, number) IN (0, 3)"
        " AND (head_sha IS NULL OR number IS NOT NULL)",
        name="key_parts",
    ),
    Index(
        "intents_occupied_key",
        "tenant",
        "key",
        "action",
        "generation",
        unique=True,
        postgresql_where=text(f"delivery_seq IS NOT NULL AND status IN ({_OCCUPYING})"),
    ),
    Index(
        "intents_manual_key",
        "tenant",
        "forge_instance",
        "repo_id",
        "number",
        "suffix",
        "action",
        unique=True,
        postgresql_where=text(
            f"suffix LIKE 'manual-%' AND delivery_seq IS NOT NULL AND status IN ({_OCCUPYING})"
        ),
    ),
    Index(None, "tenant", "key", "action"),
    Index(None, "delivery_seq", postgresql_where=text("delivery_seq IS NOT NULL")),
    Index(None, "tenant", "forge_instance", "repo_id", "number"),
    Index("intents_dead_idx", "tenant", postgresql_where=text("status = 'dead'")),
)
"""Units of work. Written when made and when settled; what is open stands in ready, waiting or a
lease. The payload of one made by a delivery is the delivery's body. `attempts` is what was
charged when the intent was settled; while open, the row that holds it counts. One on a change
request without a head waits for it, and its key and generation are stored with the head (I7). A
command of a comment is made once, whatever its head (I6).
"""

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("intent_id", BigInteger, primary_key=True, autoincrement=False),
    tenant(),
    Column("queue", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("key_label", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    instant("died_at", now=True),
    Column("redriven_as", BigInteger),
    instant("redriven_at", nullable=True),
    CheckConstraint("(redriven_as IS NULL) = (redriven_at IS NULL)", name="redriven"),
    Index(None, "tenant", "died_at"),
)
"""Intents that will not be tried again, with why; what they carried stands in intents (Q6).

`redriven_as` is the intent that tries the work again (I14).
"""

ready = Table(
    "ready",
    metadata,
    Column("queue", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    tenant(),
    Column("number", BigInteger, nullable=False, server_default=ready_number.next_value()),
    Column("intent_id", BigInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    instant("entered_at", now=True),
    PrimaryKeyConstraint("queue", "priority", "tenant", "number"),
    Index("ready_intent_id_key", "intent_id", unique=True),
)
"""Intents that may be granted now. A lane is (queue, priority, tenant), in order of number."""

waiting = Table(
    "waiting",
    metadata,
    Column("intent_id", BigInteger, primary_key=True, autoincrement=False),
    tenant(),
    Column("queue", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("waits_on", Text, nullable=False),
    Column("publication_id", BigInteger),
    instant("due_at"),
    instant("since", now=True),
    Column("reason", Text, nullable=False, server_default=text("''")),
    one_of("waits_on", WaitsOn),
    CheckConstraint(
        "(waits_on = 'publication') = (publication_id IS NOT NULL)", name="publication_id"
    ),
    Index("waiting_due_idx", "due_at", postgresql_where=text("waits_on <> 'head'")),
    Index("waiting_head_idx", "due_at", postgresql_where=text("waits_on = 'head'")),
    Index(
        "waiting_lease_idx",
        "tenant",
        "key",
        "action",
        postgresql_where=text("waits_on = 'lease'"),
    ),
    Index(None, "publication_id", postgresql_where=text("publication_id IS NOT NULL")),
)
"""Intents that must not be granted yet: a guarded mover enters them into ready, newly numbered.

One that waits for its head has no key to be granted under: it leaves when that is stored (I7).
"""

leases = Table(
    "leases",
    metadata,
    tenant(),
    Column("key", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("session_id", Text),
    Column("intent_id", BigInteger, nullable=False),
    Column("queue", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("grant_id", Text, nullable=False),
    Column("lease_ms", BigInteger, nullable=False),
    instant("granted_at"),
    instant("renewed_at"),
    instant("claimable_at"),
    instant("settled_at", nullable=True),
    *lock_only(),
    PrimaryKeyConstraint("tenant", "key", "action"),
    one_of("state", LeaseState),
    CheckConstraint("epoch >= 1", name="epoch"),
    CheckConstraint("(state = 'running') = (settled_at IS NULL)", name="settled"),
    Index(None, "claimable_at", postgresql_where=text("state = 'running'")),
    Index(None, "session_id", postgresql_where=text("state = 'running'")),
    Index(None, "intent_id", postgresql_where=text("state = 'running'")),
    Index(None, "grant_id", postgresql_where=text("state = 'running'")),
)
"""The right to act on (key, action). In flight is this row, not a flag elsewhere.

Every grant raises the epoch by one (L2). A running lease may be taken over only after
`claimable_at` (L1).
"""

dispatches = Table(
    "dispatches",
    metadata,
    tenant(),
    Column("key", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("intent_id", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    instant("granted_at"),
    instant("ended_at", now=True),
    Column("outcome", Text, nullable=False),
    Column("outcome_sha256", LargeBinary, nullable=False),
    Column("disposition", Text),
    Column("reason", Text, nullable=False, server_default=text("''")),
    PrimaryKeyConstraint("tenant", "key", "action", "epoch"),
    one_of("outcome", DispatchOutcome),
    one_of("disposition", Disposition),
    CheckConstraint("(outcome = 'failed') = (disposition IS NOT NULL)", name="failed"),
    Index(None, "intent_id"),
)
"""Ended dispatches: the stored outcome of each (Q8). One that runs still is its lease."""

sessions = Table(
    "sessions",
    metadata,
    Column("session_id", Text, primary_key=True),
    tenant(),
    Column("key_id", Text, nullable=False),
    Column("queues", ARRAY(Text), nullable=False),
    Column("version", Text, nullable=False, server_default=text("''")),
    Column("labels", JSONB, nullable=False, server_default=text("'{}'")),
    Column("replica", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("draining", Boolean, nullable=False, server_default=text("false")),
    instant("started_at", now=True),
    instant("heard_at", now=True),
    instant("ended_at", nullable=True),
    one_of("state", SessionState),
    CheckConstraint("(state = 'ended') = (ended_at IS NOT NULL)", name="ended"),
    Index(None, "heard_at", postgresql_where=text("state <> 'ended'")),
)
"""Workers that hold or held a stream."""

"""What came in: markers, deliveries and the change requests they speak of."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from shared.schema.states import ChangeRequestState, DeliveryOutcome
from shared.schema.tables.base import identity, instant, lock_only, metadata, one_of, tenant

delivery_markers = Table(
    "delivery_markers",
    metadata,
    tenant(),
    Column("endpoint", Text, nullable=False),
    Column("delivery_id", Text, nullable=False),
    Column("body_sha256", LargeBinary, nullable=False),
    instant("expires_at"),
    *lock_only(),
    PrimaryKeyConstraint("tenant", "endpoint", "delivery_id"),
    Index(None, "expires_at"),
)
"""One row per delivery id while it counts as seen (I1, I3, I4)."""

body_markers = Table(
    "body_markers",
    metadata,
    tenant(),
    Column("endpoint", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("body_sha256", LargeBinary, nullable=False),
    Column("delivery_id", Text, nullable=False),
    instant("expires_at"),
    *lock_only(),
    PrimaryKeyConstraint("tenant", "endpoint", "event", "body_sha256"),
    Index(None, "expires_at"),
)
"""One row per body that made work, where nothing proves delivery ids, with whose it was (I12)."""

deliveries = Table(
    "deliveries",
    metadata,
    identity("delivery_seq"),
    tenant(),
    Column("endpoint", Text, nullable=False),
    Column("delivery_id", Text, nullable=False),
    Column("forge", Text, nullable=False),
    Column("forge_instance", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("event_action", Text, nullable=False, server_default=text("''")),
    instant("received_at", now=True),
    Column("content_type", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("body_sha256", LargeBinary, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=text("''")),
    Column("matched_delivery_id", Text),
    Column("intent_ids", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    Column("key", Text),
    Column("key_label", Text),
    Column("repo_id", BigInteger),
    Column("number", BigInteger),
    Column("projection", JSONB, nullable=False, server_default=text("'{}'")),
    Column("traceparent", Text, nullable=False, server_default=text("''")),
    one_of("outcome", DeliveryOutcome),
    Index(None, "tenant", "endpoint", "delivery_id"),
    Index(None, "tenant", "delivery_id"),
    Index(None, "tenant", "forge_instance", "repo_id", "number"),
    Index(None, "tenant", "received_at"),
    # It holds every row; the condition keeps it from queries that look for an id.
    Index(
        "deliveries_last_of_endpoint_idx",
        "tenant",
        "endpoint",
        "received_at",
        postgresql_where=text("delivery_seq > 0"),
    ),
)
"""Deliveries as they were sent: the raw body is the truth, the projection is derived (I10).

`intent_ids` are those that the first submission was answered with, its own or others'.
"""

change_requests = Table(
    "change_requests",
    metadata,
    tenant(),
    Column("forge_instance", Text, nullable=False),
    Column("repo_id", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("forge", Text, nullable=False),
    Column("repo_name", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("base_ref", Text, nullable=False, server_default=text("''")),
    Column("head_sha", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("superseded_through", BigInteger, nullable=False, server_default=text("0")),
    Column("abandoned_through", BigInteger, nullable=False, server_default=text("0")),
    Column("state", Text, nullable=False),
    instant("forge_updated_at", nullable=True),
    instant("updated_at", now=True),
    *lock_only(),
    PrimaryKeyConstraint("tenant", "forge_instance", "repo_id", "number"),
    one_of("state", ChangeRequestState),
    CheckConstraint("generation >= 1", name="generation"),
    CheckConstraint("superseded_through < generation", name="superseded_through"),
    CheckConstraint("abandoned_through <= generation", name="abandoned_through"),
    Index(
        "change_requests_open_head_idx",
        "tenant",
        "forge_instance",
        "repo_id",
        "head_sha",
        postgresql_where=text("state = 'open'"),
    ),
    Index(None, "tenant", "url"),
)
"""Pull and merge requests with their current head.

The generation rises each time a head becomes current. Generations up to `superseded_through`
and `abandoned_through` are refused at the grant (I9, L1).
"""

change_request_heads = Table(
    "change_request_heads",
    metadata,
    tenant(),
    Column("forge_instance", Text, nullable=False),
    Column("repo_id", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("head_sha", Text, nullable=False),
    instant("became_current_at", now=True),
    PrimaryKeyConstraint("tenant", "forge_instance", "repo_id", "number", "generation"),
)
"""Every head that was current, with its generation."""

merge_groups = Table(
    "merge_groups",
    metadata,
    tenant(),
    Column("forge_instance", Text, nullable=False),
    Column("repo_id", BigInteger, nullable=False),
    Column("head_sha", Text, nullable=False),
    Column("numbers", ARRAY(BigInteger), nullable=False),
    instant("gone_at", nullable=True),
    instant("expires_at"),
    *lock_only(),
    PrimaryKeyConstraint("tenant", "forge_instance", "repo_id", "head_sha"),
    Index(None, "expires_at"),
)
"""Commits of merge queues, with the numbers of the change requests in them, while deliveries of
theirs count as seen. Nothing is worked on for one that is gone.
"""

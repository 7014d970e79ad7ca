"""Who may call."""

from sqlalchemy import CheckConstraint, Column, Index, LargeBinary, Table, Text, text
from sqlalchemy.dialects.postgresql import ARRAY

from shared.schema.tables.base import instant, metadata

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("tenant", Text),
    Column("label", Text, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("secret_sha256", LargeBinary, nullable=False),
    instant("created_at", now=True),
    Column("created_by", Text, nullable=False),
    Column("rotated_from", Text),
    instant("ends_at", nullable=True),
    CheckConstraint("octet_length(secret_sha256) = 32", name="secret_sha256"),
    CheckConstraint("cardinality(scopes) > 0", name="scopes"),
    Index(None, "tenant", "created_at"),
    Index(
        "api_keys_bootstrap_key",
        "label",
        unique=True,
        postgresql_where=text("created_by = 'bootstrap'"),
    ),
)
"""Keys by their public id; the secret only as its SHA-256. No tenant: an operator's key of all.

Bootstrap makes each of its keys once, however many replicas try: its labels are unique.
"""

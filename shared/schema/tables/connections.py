"""Ways into forges, and the sealed tokens that open them."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from shared.schema.tables.base import instant, metadata, tenant

connections = Table(
    "connections",
    metadata,
    tenant(),
    Column("forge_instance", Text, nullable=False),
    Column("forge", Text, nullable=False),
    Column("base_url", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("sealing_key_id", Text, nullable=False),
    Column("wrapped_key", LargeBinary, nullable=False),
    Column("ciphertext", LargeBinary, nullable=False),
    instant("created_at", now=True),
    instant("changed_at", now=True),
    instant("disabled_at", nullable=True),
    PrimaryKeyConstraint("tenant", "forge_instance"),
    CheckConstraint("forge IN ('forgejo', 'gitea', 'github', 'gitlab')", name="forge"),
    CheckConstraint("version >= 1", name="version"),
    CheckConstraint("octet_length(wrapped_key) = 60", name="wrapped_key"),
)
"""One way a tenant has into a forge instance; its token is sealed (K1), anew with each version."""

"""A PostgreSQL of our own for machines that have none: found, made, started and stopped here."""

from shared.embedded.errors import EmbeddedPostgresError
from shared.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]

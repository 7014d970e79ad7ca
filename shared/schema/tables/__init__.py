"""All tables, one file per subject; `metadata` is what migrations are compared with."""

from shared.schema.tables import (
    access,
    checkpoints,
    connections,
    endpoints,
    intake,
    meta,
    publications,
    queues,
    work,
)
from shared.schema.tables.base import metadata

__all__ = [
    "access",
    "checkpoints",
    "connections",
    "endpoints",
    "intake",
    "meta",
    "metadata",
    "publications",
    "queues",
    "work",
]

"""Statements of the bootstrap: the first keys, each made once whatever number of replicas try."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import psycopg
from psycopg import errors
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

CONNECT_TIMEOUT_S = 10
TURN_TIMEOUT_MS = 30_000

Session = psycopg.Connection
Unreachable = psycopg.OperationalError
NotMigrated = (errors.UndefinedTable, errors.InvalidSchemaName, errors.InsufficientPrivilege)


class TurnNotComeError(Exception):
    """Another bootstrap of the same database is under way and does not end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyToMake:
    """A key about to be stored."""

    key_id: str
    tenant: str | None
    label: str
    scopes: Sequence[str]
    secret_sha256: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeKey:
    """A key that a bootstrap made."""

    key_id: str
    label: str
    created_at: datetime
    ended: bool


@contextmanager
def transaction(url: str) -> Iterator[Session]:
    """One transaction, which the block commits; rolled back otherwise.

    Raises Unreachable, NotMigrated, TurnNotComeError.
    """
    connection = psycopg.connect(
        url,
        connect_timeout=CONNECT_TIMEOUT_S,
        application_name="fencepost bootstrap",
        prepare_threshold=None,
    )
    try:
        connection.execute("SELECT set_config('lock_timeout', %s, true)", [f"{TURN_TIMEOUT_MS}ms"])
        yield connection
    except errors.LockNotAvailable as late:
        raise TurnNotComeError from late
    finally:
        connection.close()


_INSERT_KEY = """
INSERT INTO fencepost.api_keys (key_id, tenant, label, scopes, secret_sha256, created_by)
VALUES (%(key_id)s, %(tenant)s, %(label)s, %(scopes)s, %(secret_sha256)s, 'bootstrap')
ON CONFLICT (label) WHERE created_by = 'bootstrap' DO NOTHING
"""


def insert_key(connection: Session, key: KeyToMake) -> bool:
    """Stores the key. False: a key of this label was made before, or has been meanwhile.

    Waits while another bootstrap has such a key in hand.
    """
    values = {
        "key_id": key.key_id,
        "tenant": key.tenant,
        "label": key.label,
        "scopes": list(key.scopes),
        "secret_sha256": key.secret_sha256,
    }
    return connection.execute(_INSERT_KEY, values).rowcount == 1


_INSERT_AUDIT_ENTRY = """
INSERT INTO fencepost.audit_entries (tenant, key_id, action, subject, detail)
VALUES (%(tenant)s, 'bootstrap', 'bootstrap_key', %(key_id)s, %(detail)s)
"""


def insert_audit_entry(connection: Session, key: KeyToMake) -> None:
    """Writes down that the key was made (W7)."""
    detail = Jsonb({"label": key.label, "scopes": list(key.scopes)})
    values = {"tenant": key.tenant or "*", "key_id": key.key_id, "detail": detail}
    connection.execute(_INSERT_AUDIT_ENTRY, values)


_DIGESTS = "SELECT key_id, secret_sha256 FROM fencepost.api_keys"


def digests(connection: Session) -> dict[str, bytes]:
    """Digests of all keys by key id, those of later rotations included."""
    return dict(connection.execute(_DIGESTS).fetchall())


_MADE_KEYS = """
SELECT key_id, label, created_at,
    coalesce(ends_at <= statement_timestamp(), false) AS ended
FROM fencepost.api_keys
WHERE created_by = 'bootstrap'
ORDER BY created_at, key_id
"""


def made_keys(connection: Session) -> list[MadeKey]:
    """Every key that a bootstrap made, oldest first."""
    with connection.cursor(row_factory=class_row(MadeKey)) as cursor:
        return cursor.execute(_MADE_KEYS).fetchall()

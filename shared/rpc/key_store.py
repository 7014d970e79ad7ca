"""The one statement that reads API keys for authentication."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.database import Transaction, statement


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """A key as stored; `ended` is judged on the database's clock."""

    key_id: str
    tenant: str | None
    scopes: tuple[str, ...]
    secret_sha256: bytes = field(repr=False)
    ended: bool


_KEYS = statement(
    """
    SELECT key_id, tenant, scopes, secret_sha256,
           coalesce(ends_at <= statement_timestamp(), false) AS ended
      FROM fencepost.api_keys
     WHERE key_id = ANY(%(key_ids)s)
    """
)


async def keys(tx: Transaction, key_ids: Sequence[str]) -> list[KeyRow]:
    """Those of these keys that exist, ended ones too."""
    return await tx.all(_KEYS, KeyRow, key_ids=list(key_ids))

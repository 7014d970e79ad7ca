"""The database's clock, for what is judged before anything is written."""

from dataclasses import dataclass

from shared.database import Transaction, statement

_FIND_NOW_S = statement("""
    SELECT extract(epoch FROM clock_timestamp())::float8 AS now_s
""")


@dataclass(frozen=True)
class _Now:
    now_s: float


async def find_now_s(tx: Transaction) -> float:
    """The database's clock, in seconds since 1970."""
    now = await tx.one(_FIND_NOW_S, _Now)
    assert now is not None, "the clock always answers"
    return now.now_s

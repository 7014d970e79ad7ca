"""A list whose transaction meets a row that stays locked: what needs that row is set apart (X7).

The whole list is tried first, and waits for its locks as long as a statement may: most waits are
short. Only when one was not is the list halved, and halved again, until what is stuck stands
alone. These waits are far shorter than the server's deadlock_timeout, so halves need no common
order of locks: whoever stands crosswise is set apart, too.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

from shared.database import Database, RowLocked, Transaction

LOCK_WAIT_MS = 50
WARY_S = 30.0
"""A row that stayed locked may do so for a while: nobody waits for it in full again and again."""

Way = Literal["whole", "parts"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Patience:
    """Whether lists are tried whole, or in parts because a row stayed locked just now."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wary_until_s = 0.0

    async def run(self, work: Callable[[Transaction, Way], Awaitable[Answer]]) -> Answer:
        """One transaction of this work, which is told which way to go."""
        if time.monotonic() >= self._wary_until_s:
            try:
                return await self._database.run(lambda tx: work(tx, "whole"))
            except RowLocked:
                self._wary_until_s = time.monotonic() + WARY_S
        return await self._database.run(lambda tx: work(tx, "parts"))


async def apart(
    tx: Transaction,
    items: Sequence[Item],
    work: Callable[[Sequence[Item]], Awaitable[list[Answer]]],
    stuck: Callable[[Item], Awaitable[list[Answer]]],
    *,
    way: Way,
) -> list[Answer]:
    """What the work answers, in order; in parts, an item that is stuck is left to `stuck`."""
    if way == "whole":
        return await work(items)
    try:
        async with tx.part(lock_timeout_ms=LOCK_WAIT_MS):
            return await work(items)
    except RowLocked:
        if len(items) == 1:
            return await stuck(items[0])
    middle = len(items) // 2
    return [
        *await apart(tx, items[:middle], work, stuck, way=way),
        *await apart(tx, items[middle:], work, stuck, way=way),
    ]

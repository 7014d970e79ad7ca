"""Smart batching: calls that arrive while a round trip is under way form the next batch.

No timer: an idle call goes at once, and the busier it gets, the larger the batches. A batch is one
call of a list operation, which gives every item an outcome of its own.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from fencepost.byte_budget import ByteBudget
from fencepost.errors import Draining, FencepostError, Internal

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

MIB: Final = 1024 * 1024
SET_APART_MAX: Final = 8
"""Items of one batch that may fail alone before the rest is taken to fail for the same cause."""


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """Bounds of one batch, and of the large items that go beside it."""

    items_max: int = 500
    bytes_max: int = 4 * MIB
    large_item_bytes: int = MIB
    large_items_bytes_max: int = 64 * MIB


@dataclass(frozen=True)
class _Call(Generic[Item, Outcome]):
    item: Item
    size_bytes: int
    outcome: "asyncio.Future[Outcome]"


class Batcher(Generic[Item, Outcome]):
    """Turns single calls into few calls of a list operation; one is under way at a time.

    The operation gives each item its outcome, in order. A FencepostError that it raises concerns
    the whole list and is raised to every caller. Anything else, Internal included, is some item's
    fault: the list is halved until that item stands alone and its caller alone gets the fault. So
    an operation that raises must have done nothing, or must be safe to repeat. A batch runs in no
    caller's context: trace and tenant of an item travel in the item.
    """

    def __init__(
        self,
        operation: Callable[[Sequence[Item]], Awaitable[Sequence[Outcome]]],
        *,
        size_bytes: Callable[[Item], int],
        limits: BatchLimits,
    ) -> None:
        self._operation = operation
        self._size_bytes = size_bytes
        self._limits = limits
        self._large_items = ByteBudget(limits.large_items_bytes_max)
        self._waiting: deque[_Call[Item, Outcome]] = deque()
        self._round_trips: asyncio.Task[None] | None = None
        self._closed = False

    async def submit(self, item: Item) -> Outcome:
        """The item's own outcome; raises what concerns it, and Draining once closed.

        A caller who is cancelled leaves at once. An item that was still waiting is not sent; one
        that is under way may be done all the same, and nobody is told.
        """
        if self._closed:
            raise Draining
        size_bytes = self._size_bytes(item)
        if size_bytes > self._limits.large_item_bytes:
            async with self._large_items.held(size_bytes):
                return (await self._operation([item]))[0]
        call = _Call[Item, Outcome](item, size_bytes, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if self._round_trips is None:
            self._round_trips = asyncio.create_task(self._make_round_trips(), context=Context())
        return await call.outcome

    async def close(self) -> None:
        """Lets nobody in any more; returns when everyone who was let in has an answer."""
        self._closed = True
        if self._round_trips is not None:
            await asyncio.wait([self._round_trips])
        await self._large_items.idle()

    async def _make_round_trips(self) -> None:
        batch: list[_Call[Item, Outcome]] = []
        try:
            while batch := self._next_batch():
                await self._serve(batch)
                # Who was just answered and submits again is in the next batch, not after it.
                await asyncio.sleep(0)
        finally:
            self._round_trips = None
            # Somebody is left only if this task was cancelled: nobody waits for ever.
            for call in (*batch, *self._waiting):
                call.outcome.cancel()
            self._waiting.clear()

    def _next_batch(self) -> list[_Call[Item, Outcome]]:
        batch: list[_Call[Item, Outcome]] = []
        free_bytes = self._limits.bytes_max
        while self._waiting and len(batch) < self._limits.items_max:
            if batch and self._waiting[0].size_bytes > free_bytes:
                break
            batch.append(self._waiting.popleft())
            free_bytes -= batch[-1].size_bytes
        return batch

    async def _serve(self, batch: Sequence[_Call[Item, Outcome]]) -> None:
        parts, set_apart = [batch], 0
        while parts:
            calls = [call for call in parts.pop() if not call.outcome.done()]
            fault = await self._round_trip(calls) if calls else None
            if fault is None:
                continue
            of_all = isinstance(fault, FencepostError) and not isinstance(fault, Internal)
            if of_all or len(calls) == 1 or set_apart >= SET_APART_MAX:
                _fail(calls, fault)
                set_apart += 1
            else:
                middle = len(calls) // 2
                parts += [calls[middle:], calls[:middle]]

    async def _round_trip(self, calls: Sequence[_Call[Item, Outcome]]) -> Exception | None:
        """One call of the operation; what it raised, if it did."""
        try:
            outcomes = await self._operation([call.item for call in calls])
            pairs = list(zip(calls, outcomes, strict=True))
        except Exception as fault:  # noqa: BLE001  (the callers get it)
            return fault
        for call, outcome in pairs:
            if not call.outcome.done():
                call.outcome.set_result(outcome)
        return None


def _fail(calls: Sequence[_Call[Item, Outcome]], fault: Exception) -> None:
    for call in calls:
        if not call.outcome.done():
            call.outcome.set_exception(fault)
            # It counts as seen: its caller may be cancelled in this very turn.
            call.outcome.exception()

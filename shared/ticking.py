"""Background work: one duty that runs again and again, and outlives its own failures."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from fencepost.errors import FencepostError

from shared.metrics import BACKGROUND_TICKS

JITTER: Final = 0.2
"""Each pause is shorter or longer by up to this share, so that replicas spread out."""

STOP_TIMEOUT_S: Final = 5.0

log = structlog.get_logger(__name__)


def always() -> bool:
    """Nothing stands in the way."""
    return True


class Ticker:
    """Runs `tick`, then pauses for about `period_ms` or until woken, and so on.

    A tick returns whether there is more to do at once. One that fails is logged and counted, and
    the next comes in its time.
    """

    def __init__(
        self, name: str, *, period_ms: int, tick: Callable[[], Awaitable[bool | None]]
    ) -> None:
        self.name = name
        self._period_s = period_ms / 1000
        self._tick = tick
        self._woken = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._may_tick: Callable[[], bool] = always
        self._refused = False

    def start(self, *, may_tick: Callable[[], bool] = always) -> None:
        """Begins to tick; while `may_tick` says no, ticks are left out."""
        self._may_tick = may_tick
        self._task = asyncio.create_task(self._run(), name=self.name)

    def wake(self) -> None:
        """Lets the next tick come at once; one more follows if a tick is running now."""
        self._woken.set()

    async def stop(self, *, within_s: float = STOP_TIMEOUT_S) -> None:
        """Waits for the running tick; cancels it when time is up."""
        if self._task is None:
            return
        self._stopping = True
        self._woken.set()
        _, late = await asyncio.wait({self._task}, timeout=within_s)
        if late:
            log.warning("a tick did not end in time and is cancelled", loop=self.name)
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while not self._stopping:
            # Before the tick: a wake that comes while it runs must not be lost.
            self._woken.clear()
            more = self._may_tick() and await self._guarded()
            if not more and not self._stopping:
                await self._pause()

    async def _guarded(self) -> bool:
        try:
            more = bool(await self._tick())
        except FencepostError as error:
            self._tell_refusal(error)
            return False
        except Exception as error:
            BACKGROUND_TICKS.labels(self.name, "failed").inc()
            log.error("a tick failed by a fault of ours", loop=self.name, exc_info=error)
            return False
        BACKGROUND_TICKS.labels(self.name, "ok").inc()
        if self._refused:
            self._refused = False
            log.info("the loop works again", loop=self.name)
        return more

    def _tell_refusal(self, error: FencepostError) -> None:
        """A refusal, such as an absent database, lasts: it is told when it begins and ends."""
        BACKGROUND_TICKS.labels(self.name, "failed").inc()
        if not self._refused:
            self._refused = True
            log.warning("a tick failed", loop=self.name, why=str(error))

    async def _pause(self) -> None:
        pause_s = self._period_s * random.uniform(1 - JITTER, 1 + JITTER)
        try:
            async with asyncio.timeout(pause_s):
                await self._woken.wait()
        except TimeoutError:
            return

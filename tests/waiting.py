"""Waiting for a condition with a deadline: the only place in the tests that sleeps."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.1


@overload
async def until(
    condition: Callable[[], Awaitable[T | None]], *, deadline_s: float = ..., what: str
) -> T: ...
@overload
async def until(condition: Callable[[], T | None], *, deadline_s: float = ..., what: str) -> T: ...
async def until(
    condition: Callable[[], Awaitable[T | None]] | Callable[[], T | None],
    *,
    deadline_s: float = 30.0,
    what: str,
) -> T:
    """Awaits the first truthy answer of the condition and returns it.

    Raises TimeoutError, which says what was awaited and the last answer, when `deadline_s` is over.
    """
    give_up_at = time.monotonic() + deadline_s
    pause_s = FIRST_PAUSE_S
    while True:
        answer = condition()
        seen: T | None = await answer if inspect.isawaitable(answer) else answer
        if seen:
            return seen
        if time.monotonic() >= give_up_at:
            raise _too_late(what, deadline_s, seen)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def until_sync(condition: Callable[[], T | None], *, deadline_s: float = 30.0, what: str) -> T:
    """The same for a test without an event loop."""
    give_up_at = time.monotonic() + deadline_s
    pause_s = FIRST_PAUSE_S
    while not (seen := condition()):
        if time.monotonic() >= give_up_at:
            raise _too_late(what, deadline_s, seen)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return seen


def _too_late(what: str, deadline_s: float, seen: object) -> TimeoutError:
    return TimeoutError(f"waited {deadline_s} s for {what}; last answer: {seen!r}")

"""How long a lease is known to hold, and what a caller may conclude from a failed call."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import grpc

from fencepost.common.v1 import key_pb2
from fencepost.errors import (
    DatabaseUnavailable,
    DeadlineTooShort,
    Draining,
    FencepostError,
    Internal,
    LeaseLost,
    Overloaded,
    Refusal,
)

PAUSE_S: Final = 0.2
PAUSE_S_MAX: Final = 4.0

T = TypeVar("T")

log = logging.getLogger("fencepost.worker")

_NO_ANSWERS = (DatabaseUnavailable, DeadlineTooShort, Draining, Internal, Overloaded)
_CODES_OF_DOUBT = {
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
}
"""What gRPC itself says when an answer was lost on the way."""


class LeaseLapsed(LeaseLost):
    """The worker's own word that its lease is lost or may be; no call was made."""


class LeaseClock:
    """How long the lease is known to hold, on this process's monotonic clock. Keeps L4.

    It begins when the dispatch arrives; for the time on the way there is the fence.
    """

    def __init__(self, fence: key_pb2.Fence, lease_s: float) -> None:
        self.fence = fence
        self.lease_s = lease_s
        self._ends_s = time.monotonic() + lease_s
        self._lost = False

    def renewed(self, *, asked_at_s: float, lease_s: float) -> None:
        """The lease holds from the moment the renewal was asked for, at least."""
        self.lease_s = lease_s
        self._ends_s = max(self._ends_s, asked_at_s + lease_s)

    def lose(self) -> None:
        """The lease is another's, or may be: for good."""
        self._lost = True

    @property
    def remaining_s(self) -> float:
        """Time left; 0 when it is lost or may be."""
        return 0.0 if self._lost else max(0.0, self._ends_s - time.monotonic())

    def must_hold(self) -> None:
        """Raises LeaseLapsed when the lease is lost or may be: no side effect may follow."""
        if self.remaining_s == 0.0:
            fence = self.fence
            raise LeaseLapsed(key=fence.key, action=fence.action, epoch=fence.epoch)


def leaves_doubt(error: FencepostError) -> bool:
    """Whether the call may have been carried out although it failed."""
    if isinstance(error, Refusal):
        return isinstance(error, _NO_ANSWERS)
    return error.code in _CODES_OF_DOUBT


async def until_answered(call: Callable[[], Awaitable[T]], lease: LeaseClock) -> T:
    """Repeats a call that may be repeated until it is answered; raises LeaseLapsed before.

    A fault of the server counts as an answer: it may come every time.
    """
    pause_s = PAUSE_S
    while True:
        lease.must_hold()
        try:
            return await call()
        except FencepostError as unanswered:
            if isinstance(unanswered, Internal) or not leaves_doubt(unanswered):
                raise
            log.warning("a call was not answered and is repeated: %s", unanswered)
            asked_s = getattr(unanswered, "retry_after_ms", 0) / 1000
        wait_s = max(asked_s, pause_s * random.uniform(0.5, 1.0))
        await asyncio.sleep(min(wait_s, lease.remaining_s))
        pause_s = min(pause_s * 2, PAUSE_S_MAX)

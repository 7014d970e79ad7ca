"""The calls being served: how many, whose, and how they are ended before their time.

None is let in while draining, nor more at once than the limit. A call that must end, since its key
was revoked or the server goes away, is cancelled together with the error its caller is told.
"""

import asyncio
from collections.abc import Iterable

from fencepost.errors import Draining, FencepostError, Overloaded


class OpenCall:
    """One call; `key_id` is set once the caller is known, `error` once it was ended from here."""

    __slots__ = ("error", "key_id", "streaming", "task")

    def __init__(self, task: "asyncio.Task[object]", *, streaming: bool) -> None:
        self.task = task
        self.streaming = streaming
        self.key_id = ""
        self.error: FencepostError | None = None

    def end(self, error: FencepostError) -> None:
        """Stops the call's work; its caller is told the error."""
        if self.error is None:
            self.error = error
            self.task.cancel()


class OpenCalls:
    """All of them."""

    def __init__(self, *, concurrent_rpcs_max: int) -> None:
        self._concurrent_rpcs_max = concurrent_rpcs_max
        self._open: set[OpenCall] = set()
        self._idle = asyncio.Event()
        self.draining = asyncio.Event()
        """Set once nobody is let in any more; long streams wind down when they see it."""

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, *, streaming: bool) -> OpenCall:
        """Lets the current task's call in; raises Draining or Overloaded."""
        if self.draining.is_set():
            raise Draining
        if len(self._open) >= self._concurrent_rpcs_max:
            raise Overloaded
        task = asyncio.current_task()
        assert task is not None, "grpc serves each call in a task"
        call = OpenCall(task, streaming=streaming)
        self._open.add(call)
        return call

    def finish(self, call: OpenCall) -> None:
        """Forgets a call that is answered."""
        self._open.discard(call)
        if not self._open and self.draining.is_set():
            self._idle.set()

    def stream_keys(self) -> set[str]:
        """Keys behind the streams that are open."""
        return {call.key_id for call in self._open if call.streaming and call.key_id}

    def end_streams(self, key_ids: Iterable[str], error: FencepostError) -> None:
        """Ends the streams of these keys."""
        ended = frozenset(key_ids)
        for call in [call for call in self._open if call.streaming and call.key_id in ended]:
            call.end(error)

    def drain(self) -> None:
        """Lets nobody in any more."""
        self.draining.set()
        if not self._open:
            self._idle.set()

    async def drained(self, *, within_s: float) -> bool:
        """Whether every call ended by itself in time; those left are ended now."""
        try:
            async with asyncio.timeout(within_s):
                await self._idle.wait()
        except TimeoutError:
            for call in list(self._open):
                call.end(Draining())
            return False
        return True

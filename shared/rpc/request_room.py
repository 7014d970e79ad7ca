"""Room for the requests that are read and served, in bytes.

How large a request is shows only when it is read. So room for the largest is taken before, while
what its caller sends stays with him, and what it did not need is given back. Who finds no room
waits for his turn, at most `WAIT_S`.
"""

import asyncio
from collections import deque

from fencepost.errors import Overloaded

WAIT_S = 1.0


class RequestRoom:
    """The bytes that all requests of a server may take together."""

    def __init__(self, *, bytes_max: int, message_limit_bytes: int) -> None:
        self.free_bytes = bytes_max
        self._message_limit_bytes = message_limit_bytes
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> "Held":
        """Takes room for a request of any size; raises Overloaded when there is none in time."""
        if self.free_bytes < self._message_limit_bytes:
            await self._turn()
        else:
            self.free_bytes -= self._message_limit_bytes
        return Held(self, self._message_limit_bytes)

    def give_back(self, size_bytes: int) -> None:
        """Makes room for those who wait, in the order in which they came."""
        self.free_bytes += size_bytes
        while self._waiting and self.free_bytes >= self._message_limit_bytes:
            turn = self._waiting.popleft()
            if not turn.done():
                self.free_bytes -= self._message_limit_bytes
                turn.set_result(None)

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        has_come = False
        try:
            async with asyncio.timeout(WAIT_S):
                await turn
            has_come = True
        except TimeoutError:
            raise Overloaded from None
        finally:
            if not has_come and not turn.cancel() and not turn.cancelled():
                # It came as its caller went.
                self.give_back(self._message_limit_bytes)


class Held:
    """What one request holds, until it is answered."""

    __slots__ = ("_room", "size_bytes")

    def __init__(self, room: RequestRoom, size_bytes: int) -> None:
        self._room = room
        self.size_bytes = size_bytes

    def shrink(self, size_bytes: int) -> None:
        """Keeps only so much."""
        given_bytes, self.size_bytes = self.size_bytes - size_bytes, size_bytes
        self._room.give_back(given_bytes)

"""How the receiver can be told to treat its exporters badly."""

import asyncio
from enum import StrEnum

import grpc


class Mode(StrEnum):
    """What happens to an export: taken, answered with an error, or never answered."""

    NONE = "none"
    FAIL = "fail"
    HANG = "hang"


class Misbehaviour:
    """The mode now, and how many exports it has met."""

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.code = grpc.StatusCode.UNAVAILABLE
        self.remaining: int | None = None
        self.met = 0
        self._changed = asyncio.Event()

    def set(self, mode: Mode, code: grpc.StatusCode, times: int | None) -> None:
        """Changes the mode for so many exports, or until it is changed again.

        Exports that hang are taken once another mode is set, if their exporter still waits.
        """
        self.mode, self.code, self.remaining, self.met = mode, code, times, 0
        self._changed.set()
        self._changed = asyncio.Event()

    async def meet(self) -> grpc.StatusCode | None:
        """Waits where exports hang; the code to fail an export with, None to take it."""
        if self.mode is Mode.NONE or self.remaining == 0:
            return None
        self.met += 1
        if self.remaining is not None:
            self.remaining -= 1
        if self.mode is Mode.FAIL:
            return self.code
        await self._changed.wait()
        return None

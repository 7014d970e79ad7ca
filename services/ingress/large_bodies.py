"""Work whose cost grows with a body: beside the event loop when the body is large."""

import asyncio
import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

LARGE_BODY_BYTES: Final = 256 * 1024
"""From here on a thread costs less than the delay of everybody else."""

_M_MMAP_THRESHOLD: Final = -3
"""As glibc's malloc.h numbers it."""

# One at a time: reading a body takes several times its size for a moment.
_THREAD: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-body")


async def apart(body: bytes, work: Callable[[], T]) -> T:
    """What the work returns; in a thread where the body is large, one after the other."""
    if len(body) < LARGE_BODY_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)


def give_memory_back() -> None:
    """Lets the memory of a large body go as soon as it is freed, where the C library is glibc.

    By itself it keeps such memory once it has seen it freed, in pieces that fit no other body.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BODY_BYTES)

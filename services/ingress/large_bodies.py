"""Work whose cost grows with a body: beside the event loop when the body is large."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

LARGE_BODY_BYTES: Final = 256 * 1024
"""From here on a thread costs less than the delay of everybody else."""

# One at a time: reading a body takes several times its size for a moment.
_THREAD: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-body")


async def apart(body: bytes, work: Callable[[], T]) -> T:
    """What the work returns; in a thread where the body is large, one after the other."""
    if len(body) < LARGE_BODY_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)

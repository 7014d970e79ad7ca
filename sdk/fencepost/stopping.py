"""How a worker's process is told to stop, and that it does in time."""

import asyncio
import faulthandler
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger("fencepost.worker")


@contextmanager
def stopped_by_signals(
    stop: Callable[[], None], *, within_s: float, whole_process: bool
) -> Iterator[None]:
    """SIGTERM and SIGINT call `stop`; the process is ended unless the block ends well in time.

    With `whole_process` it has to be over by then, not the block alone. Signals are heard also
    while something blocks the event loop; what hangs is written to stderr at the end. The same
    signal a second time ends the process at once. Outside of the main thread, where no signal can
    be heard, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if sys.__stderr__ is not None:
            faulthandler.dump_traceback_later(within_s, exit=True, file=sys.__stderr__)
        loop.call_soon_threadsafe(stop)

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if not whole_process:
        faulthandler.cancel_dump_traceback_later()

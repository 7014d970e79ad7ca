"""How a process is told to stop, and that it does in time."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

EXIT_HUNG = 70

log = structlog.get_logger(__name__)


class StopSignals:
    """SIGTERM and SIGINT ask to stop; the same signal a second time ends the process at once.

    Only the same one: Ctrl-C reaches a whole process group, and a parent that forwards it as
    SIGTERM must not turn a drain into a crash.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._seen: set[signal.Signals] = set()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Listens for the signals while the block runs."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        for each in signals:
            loop.add_signal_handler(each, self.receive, each)
        try:
            yield
        finally:
            for each in signals:
                loop.remove_signal_handler(each)

    def receive(self, received: signal.Signals) -> None:
        """Asks to stop; ends the process when this signal had asked before."""
        if received in self._seen:
            log.warning("stopped at once, asked a second time", signal=received.name)
            os._exit(128 + received)
        self._seen.add(received)
        log.info("stopping", signal=received.name)
        self.asked.set()


class ExitLimit:
    """Ends a process whose stop takes too long, whatever it hangs on."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def arm(self, *, within_s: float) -> None:
        """From now on the process has this long."""
        self._timer = threading.Timer(within_s, _end)
        self._timer.daemon = True
        self._timer.start()

    def disarm(self) -> None:
        """The stop is over."""
        if self._timer is not None:
            self._timer.cancel()


def _end() -> None:
    log.error("the stop hung and was cut")
    os._exit(EXIT_HUNG)

"""HTTP/1.1 with a bounded head: a client can neither fill memory nor hold a connection with it."""

import asyncio
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_LIMIT_BYTES = 64 * 1024
HEAD_TIMEOUT_S = 10.0
"""Until a head is whole: from the connection on, then from each further request's first byte."""


class BoundedHeadProtocol(HttpToolsProtocol):
    """Refuses a request whose line and headers are too long, and one that never says them."""

    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait for a head."""
        super().connection_made(cast(asyncio.Transport, transport))
        self._start_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits for nothing any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Counts the head of the next request from nothing."""
        self._head_bytes = 0
        self._start_waiting()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._stop_waiting()
        self._head_bytes = -1
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Parses what came, then looks how long a head that is still not whole has become."""
        super().data_received(data)
        if self._head_bytes < 0 or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_LIMIT_BYTES:
            self.send_400_response("The request line and headers are too long.")

    def _start_waiting(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def _head_is_late(self) -> None:
        self._head_timer = None
        self.transport.close()

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

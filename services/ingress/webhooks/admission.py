"""Bounds what the door holds at once: requests that are handled, and the bytes of their bodies."""

from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.errors import Overloaded


class HeldBytes:
    """The bytes of one request's body, given back when the request ends."""

    def __init__(self, admission: "Admission") -> None:
        self._admission = admission
        self.size_bytes = 0

    def grow(self, size_bytes: int) -> None:
        """Makes room for more of the body; raises Overloaded when there is none."""
        if self._admission.free_bytes < size_bytes:
            raise Overloaded
        self._admission.free_bytes -= size_bytes
        self.size_bytes += size_bytes


class Admission:
    """Places for requests whose bodies have come, and a budget of bytes that all share."""

    def __init__(self, *, requests_max: int, bytes_max: int) -> None:
        self.free_places = requests_max
        self.free_bytes = bytes_max

    @contextmanager
    def holding(self) -> Iterator[HeldBytes]:
        """Bytes that are held until the end of the block; none yet."""
        held = HeldBytes(self)
        try:
            yield held
        finally:
            self.free_bytes += held.size_bytes

    @contextmanager
    def handling(self) -> Iterator[None]:
        """A place until the end of the block; raises Overloaded when all are taken."""
        if self.free_places < 1:
            raise Overloaded
        self.free_places -= 1
        try:
            yield
        finally:
            self.free_places += 1

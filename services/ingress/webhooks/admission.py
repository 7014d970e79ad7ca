"""Bounds what the door holds at once: requests, and the bytes of their bodies."""

from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.errors import Overloaded


class Place:
    """One request's place; its bytes are given back when the request ends."""

    def __init__(self, admission: "Admission") -> None:
        self._admission = admission
        self.held_bytes = 0

    def hold(self, size_bytes: int) -> None:
        """Makes room for more of the body; raises Overloaded when there is none."""
        if self._admission.free_bytes < size_bytes:
            raise Overloaded
        self._admission.free_bytes -= size_bytes
        self.held_bytes += size_bytes


class Admission:
    """Places for requests, and a budget of bytes that they share."""

    def __init__(self, *, requests_max: int, bytes_max: int) -> None:
        self.free_places = requests_max
        self.free_bytes = bytes_max

    @contextmanager
    def entered(self) -> Iterator[Place]:
        """A place until the end of the block; raises Overloaded when all are taken."""
        if self.free_places < 1:
            raise Overloaded
        self.free_places -= 1
        place = Place(self)
        try:
            yield place
        finally:
            self.free_places += 1
            self.free_bytes += place.held_bytes

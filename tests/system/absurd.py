"""What no field of any contract may hold, put into each field of a request in turn."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

NUL = "a\0b"
WELL_KNOWN = ("google.protobuf.Timestamp", "google.protobuf.Duration")
MOMENTS = ((10**12, 0), (-(10**12), 0), (2**63 - 1, 0), (1, -1), (1, 2**31 - 1))
"""Seconds and nanos; the last two look like moments to all that looks at the seconds alone."""

M = TypeVar("M", bound=Message)
Put = Callable[[Any], None]


def spoilt(request: M) -> Iterator[tuple[str, M]]:
    """Copies of the request with one field spoilt each, and where."""
    for where, put in _puts(cast("Descriptor", request.DESCRIPTOR), ""):
        copy = deepcopy(request)
        put(copy)
        yield where, copy


def _puts(message: Descriptor, path: str) -> Iterator[tuple[str, Put]]:
    for field in message.fields:
        at = f"{path}{field.name}"
        if field.message_type is None:
            if field.type == FieldDescriptor.TYPE_STRING:
                yield at, _text(field)
        elif field.message_type.GetOptions().map_entry:
            yield from _pairs(field, at)
        elif field.message_type.full_name in WELL_KNOWN:
            for moment in MOMENTS:
                yield f"{at}={moment}", _within(field, _moment(*moment))
        else:
            for below, put in _puts(field.message_type, f"{at}."):
                yield below, _within(field, put)


def _text(field: FieldDescriptor) -> Put:
    def put(message: Any) -> None:
        if field.is_repeated:
            getattr(message, field.name).append(NUL)
        else:
            setattr(message, field.name, NUL)

    return put


def _pairs(field: FieldDescriptor, at: str) -> Iterator[tuple[str, Put]]:
    yield f"{at} (key)", lambda message: getattr(message, field.name).update({NUL: "x"})
    yield f"{at} (value)", lambda message: getattr(message, field.name).update({"x": NUL})


def _moment(seconds: int, nanos: int) -> Put:
    def put(message: Any) -> None:
        message.seconds, message.nanos = seconds, nanos

    return put


def _within(field: FieldDescriptor, put: Put) -> Put:
    """Puts it into the message that the field holds; into the first of a list."""

    def put_within(message: Any) -> None:
        held = getattr(message, field.name)
        if field.is_repeated:
            put(held[0] if held else held.add())
        else:
            held.SetInParent()
            put(held)

    return put_within

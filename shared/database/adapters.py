"""How values travel: whole numbers always as bigint, so that a statement has one type signature.

Arrays travel in binary: as text every string in them is escaped and a body is written out in hex,
which costs a list as much again as everything else done for it, and twice the memory.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from types import MappingProxyType, NoneType
from typing import Any

from psycopg import adapters
from psycopg.adapt import AdaptersMap
from psycopg.types.array import ListBinaryDumper
from psycopg.types.json import JsonbBinaryDumper
from psycopg.types.numeric import Int8BinaryDumper, Int8BinaryLoader, Int8Dumper

XID8_OID = 5069
FIRST_PLACE = 1
NULL = struct.pack("!i", -1)

_head = struct.Struct("!iiIii").pack
_length = struct.Struct("!i").pack
_int8 = struct.Struct("!iq").pack


class FlatListDumper(ListBinaryDumper):
    """Writes lists of one plain type at once, and all others as psycopg does, value by value."""

    def dump(self, obj: list[Any]) -> bytes | bytearray | memoryview | None:
        """The array as the server takes it."""
        kinds = set(map(type, obj))
        has_null = NoneType in kinds
        kinds.discard(NoneType)
        write = _WRITERS.get(kinds.pop()) if len(kinds) == 1 else None
        if write is None or self.sub_dumper is None:
            return super().dump(obj)
        head = _head(1, has_null, self.sub_dumper.oid, len(obj), FIRST_PLACE)
        values = _with_nulls(obj, write) if has_null else write(obj)
        return b"".join(chain((head,), values))


def _with_nulls(
    values: Sequence[Any], write: "Callable[[Sequence[Any]], Iterable[bytes]]"
) -> Iterable[bytes]:
    for value in values:
        if value is None:
            yield NULL
        else:
            yield from write((value,))


def _texts(values: Sequence[str]) -> Iterable[bytes]:
    return _bytes([*map(str.encode, values)])


def _bytes(values: Sequence[bytes]) -> Iterable[bytes]:
    return chain.from_iterable(zip(map(_length, map(len, values)), values, strict=True))


def _numbers(values: Sequence[int]) -> Iterable[bytes]:
    return map(_int8, repeat(8), values)


_WRITERS: Mapping[type, Callable[[Sequence[Any]], Iterable[bytes]]] = MappingProxyType(
    {str: _texts, bytes: _bytes, int: _numbers}
)

ADAPTERS = AdaptersMap(adapters)
ADAPTERS.register_dumper(int, Int8Dumper)
ADAPTERS.register_dumper(int, Int8BinaryDumper)
ADAPTERS.register_dumper(dict, JsonbBinaryDumper)
ADAPTERS.register_dumper(list, FlatListDumper)
ADAPTERS.register_loader(XID8_OID, Int8BinaryLoader)

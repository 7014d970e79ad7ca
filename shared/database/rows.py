"""Rows become what the caller asked for: a frozen dataclass by column name, or one plain value."""

import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from psycopg.pq import Format

from shared.database.adapters import ADAPTERS

T = TypeVar("T")

Row = tuple[object, ...]
Column = tuple[str, int]
"""Name, and the oid of the type."""

Convert = Callable[[object], object]


class RowShapeError(TypeError):
    """A statement's columns do not fit the type that its rows should become."""


class TooManyRowsError(AssertionError):
    """A statement that must find at most one row found several."""


def row_maker(into: type[T], columns: tuple[Column, ...]) -> Callable[[Row], T]:
    """How a row with these columns becomes an `into`; raises RowShapeError if it cannot."""
    found = _makers.get((into, columns))
    if found is None:
        found = _makers[into, columns] = _new_maker(into, columns)
    return found


# As many as there are statements in the code.
_makers: dict[tuple[type, tuple[Column, ...]], Callable[[Row], Any]] = {}


def by_column(rows: Sequence[NamedTuple]) -> dict[str, list[object]]:
    """Rows of one kind, at least one, as the arrays of their columns."""
    return dict(zip(rows[0]._fields, map(list, zip(*rows, strict=True)), strict=True))


def _new_maker(into: type[T], columns: tuple[Column, ...]) -> Callable[[Row], T]:
    for name, oid in columns:
        if ADAPTERS.get_loader(oid, Format.BINARY) is None:
            raise RowShapeError(f"column {name} has a type we cannot read (oid {oid}): cast it")
    names = tuple(name for name, _ in columns)
    if is_dataclass(into):
        return _dataclass_maker(into, names)
    if not names:
        raise RowShapeError(f"the statement returns no column, {into.__name__} needs one")
    return _value_maker(into, names[0])


def _value_maker(into: type[T], name: str) -> Callable[[Row], T]:
    def make(row: Row) -> T:
        value = row[0]
        if not isinstance(value, into):
            raise RowShapeError(f"column {name} is {type(value).__name__}, not {into.__name__}")
        return value

    return make


def _dataclass_maker(into: type[T], columns: tuple[str, ...]) -> Callable[[Row], T]:
    assert is_dataclass(into)
    names = [field.name for field in fields(into) if field.init]
    missing = sorted(set(names) - set(columns))
    unknown = sorted(set(columns) - set(names))
    if missing or unknown or len(names) != len(columns):
        raise RowShapeError(
            f"{into.__name__} does not fit the row: fields without a column {missing}, "
            f"columns without a field {unknown}"
        )
    order = [columns.index(name) for name in names]
    converters = _converters(into, names)
    if any(field.kw_only for field in fields(into)):
        return _by_name(into, names, order, converters)
    return _by_position(into, order, converters)


def _by_position(
    into: Callable[..., T], order: list[int], converters: Sequence[Convert | None]
) -> Callable[[Row], T]:
    if any(converters):
        return lambda row: into(*_converted(row, order, converters))
    if order == sorted(order):
        return lambda row: into(*row)
    pick = itemgetter(*order)
    return lambda row: into(*pick(row))


def _by_name(
    into: Callable[..., T],
    names: list[str],
    order: list[int],
    converters: Sequence[Convert | None],
) -> Callable[[Row], T]:
    return lambda row: into(**dict(zip(names, _converted(row, order, converters), strict=True)))


def _converted(row: Row, order: list[int], converters: Sequence[Convert | None]) -> list[object]:
    return [
        row[index] if convert is None else convert(row[index])
        for index, convert in zip(order, converters, strict=True)
    ]


def _converters(into: type, names: list[str]) -> list[Convert | None]:
    hints = typing.get_type_hints(into)
    return [_converter(hints[name]) for name in names]


def _converter(hint: object) -> Convert | None:
    """Text becomes the field's enum, an array its tuple; all else is as psycopg loads it."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        inner = _converter(members[0]) if len(members) == 1 else None
        return None if inner is None else _unless_null(inner)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if typing.get_origin(hint) is tuple:
        inner = _converter(typing.get_args(hint)[0])
        return _to_tuple if inner is None else _to_tuple_of(inner)
    return None


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _to_tuple(value: object) -> object:
    assert isinstance(value, list), f"not an array: {value!r}"
    return tuple(value)


def _to_tuple_of(convert: Convert) -> Convert:
    def convert_each(value: object) -> object:
        assert isinstance(value, list), f"not an array: {value!r}"
        return tuple(convert(each) for each in value)

    return convert_each

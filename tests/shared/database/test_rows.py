"""Rows become dataclasses by column name, or one plain value; anything else is told at once."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import pytest
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import Format

from shared.database import Database, Transaction, statement
from shared.database.adapters import ADAPTERS
from shared.database.rows import RowShapeError, TooManyRowsError
from tests.shared.database.conftest import settings_for


class Colour(StrEnum):
    """Text with few values."""

    RED = "red"


@dataclass(frozen=True)
class Thing:
    """Fields in another order than the columns."""

    colour: Colour
    number: int
    tags: tuple[str, ...]
    other: Colour | None = None


@dataclass(frozen=True, kw_only=True)
class Named:
    """Fields by keyword only."""

    number: int
    text: str


@pytest.fixture
async def db(owner_url: str) -> AsyncIterator[Database]:
    """An open pool."""
    async with Database.create(settings_for(owner_url), application_name="test") as database:
        yield database


async def test_a_row_becomes_a_dataclass_by_name(db: Database) -> None:
    st = statement("SELECT 7::bigint AS number, 'red' AS colour, ARRAY['x'] AS tags, NULL AS other")
    assert await db.read(lambda tx: tx.one(st, Thing)) == Thing(Colour.RED, 7, ("x",))


async def test_keyword_only_fields_and_several_rows(db: Database) -> None:
    st = statement("SELECT 'a' AS text, n AS number FROM generate_series(1, 2) AS n")
    rows = await db.read(lambda tx: tx.all(st, Named))
    assert rows == [Named(number=1, text="a"), Named(number=2, text="a")]


async def test_no_row_is_none(db: Database) -> None:
    st = statement("SELECT 1 AS number, 'a' AS text WHERE false")
    assert await db.read(lambda tx: tx.one(st, Named)) is None
    assert await db.read(lambda tx: tx.all(st, Named)) == []


async def test_two_rows_where_one_was_expected_are_a_fault(db: Database) -> None:
    st = statement("SELECT n FROM generate_series(1, 2) AS n")
    with pytest.raises(TooManyRowsError):
        await db.read(lambda tx: tx.one(st, int))


@pytest.mark.parametrize(
    ("sql", "into", "complaint"),
    [
        ("SELECT 1 AS number", Named, r"fields without a column \['text'\]"),
        ("SELECT 1 AS number, 'a' AS text, 2 AS x", Named, r"columns without a field \['x'\]"),
        ("SELECT 'a' AS word", int, "column word is str, not int"),
        ("SELECT '(1,2)'::point AS place", str, "column place has a type we cannot read"),
    ],
)
async def test_what_does_not_fit_is_told(
    db: Database, sql: str, into: type[object], complaint: str
) -> None:
    with pytest.raises(RowShapeError, match=complaint):
        await db.read(lambda tx: tx.one(statement(sql), into))


async def test_values_travel_both_ways_and_keep_their_type(db: Database) -> None:
    st = statement("SELECT %(value)s::{} AS value")

    async def there_and_back(tx: Transaction) -> None:
        for kind, value in (
            ("bigint", 2**62),
            ("text", "Größe ☃"),
            ("bytea", b"\x00\xff" * 5000),
            ("boolean", True),
            ("timestamptz", datetime.fromisoformat("2026-01-02T03:04:05.678901+00:00")),
            ("interval", timedelta(days=3, milliseconds=5)),
            ("double precision", 0.1),
            ("jsonb", {"a": [1, None, "☃"]}),
            ("bigint[]", [1, 2**40]),
            ("text[]", ["a", 'quoted " ,{}', "", None, "\\x00", "NULL"]),
            ("text[]", []),
            ("text[]", [None]),
            ("bytea[]", [b"\x00\xff" * 5000, None, b""]),
            ("boolean[]", [True, None]),
            ("timestamptz[]", [datetime.fromisoformat("2026-01-02T03:04:05.678901+00:00")]),
            ("jsonb[]", [{"a": [1, None, "☃"]}, None]),
        ):
            typed = statement(st.text.replace("{}", kind))
            assert await tx.one(typed, type(value), value=value) == value

    await db.read(there_and_back)


@pytest.mark.parametrize("values", [[1, 2**40], ["a"], [b"a"], [True], [Colour.RED]], ids=repr)
def test_arrays_travel_in_binary(values: list[object]) -> None:
    sent = Transformer(ADAPTERS)
    sent.dump_sequence([values], [PyFormat.AUTO])
    assert sent.formats == [Format.BINARY]


async def test_text_keeps_its_letters_whatever_encoding_the_environment_asks_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    st = statement("SELECT %(words)s::text[] = ARRAY[U&'Gr\\00F6\\00DFe', U&'\\2603'] AS same")
    async with Database.create(settings_for(url), application_name="test") as db:
        assert await db.read(lambda tx: tx.one(st, bool, words=["Größe", "☃"])) is True


async def test_an_enum_is_sent_as_its_text(db: Database) -> None:
    st = statement("SELECT %(colour)s::text = 'red' AS same")
    assert await db.read(lambda tx: tx.one(st, bool, colour=Colour.RED)) is True


async def test_a_whole_number_has_one_type_whatever_its_size(db: Database) -> None:
    st = statement("SELECT pg_typeof(%(number)s)::text AS type")

    async def types(tx: Transaction) -> set[str | None]:
        return {await tx.one(st, str, number=number) for number in (1, 70_000, 2**40)}

    assert await db.read(types) == {"bigint"}

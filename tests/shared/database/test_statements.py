"""Statements are compiled once, with constants inline and parameters by name."""

import subprocess
import sys
from enum import StrEnum

import pytest
from sqlalchemy import and_, bindparam, insert, select, text, update

from shared.database import statement
from shared.database.connections import SEARCH_PATH
from shared.database.statements import ParametersWrongError
from shared.schema.states import LeaseState
from shared.schema.tables.base import SCHEMA
from shared.schema.tables.meta import schema_revision
from shared.schema.tables.work import leases


def test_constants_stand_inline_and_parameters_by_name() -> None:
    st = statement(
        update(leases)
        .where(
            and_(
                leases.c.key == bindparam("of_key"),
                leases.c.state == LeaseState.RUNNING,
                leases.c.epoch == bindparam("of_epoch"),
            )
        )
        .values(state=LeaseState.SUCCEEDED, attempts=0)
        .returning(leases.c.epoch)
    )
    assert st.names == ("of_key", "of_epoch")
    assert "state='succeeded'" in st.text
    assert "attempts=0" in st.text
    assert "leases.state = 'running'" in st.text
    assert b"$1" in st.numbered
    assert b"$2" in st.numbered
    assert b"%" not in st.numbered


def test_a_list_of_constants_stands_inline() -> None:
    st = statement(select(leases.c.key).where(leases.c.state.in_(["free", "it's"])))
    assert st.names == ()
    assert "IN ('free', 'it''s')" in st.text


def test_columns_of_an_insert_are_parameters() -> None:
    st = statement(insert(schema_revision).values(revision=bindparam("new"), oldest_code=1))
    assert st.names == ("new",)
    assert st.text.endswith("VALUES (%(new)s::INTEGER, 1)")


def test_null_is_a_constant() -> None:
    st = statement(update(leases).values(settled_at=None))
    assert "settled_at=NULL" in st.text


def test_sqlalchemy_text_is_taken() -> None:
    assert statement(text("SELECT :number + 1")).numbered == b"SELECT $1 + 1"


def test_sql_is_taken_as_it_is_and_a_repeated_parameter_is_sent_once() -> None:
    st = statement("SELECT %(a)s, %(b)s, %(a)s, '100 %%'")
    assert st.numbered == b"SELECT $1, $2, $1, '100 %'"
    assert st.values({"b": 2, "a": 1}) == [1, 2]


def test_a_stray_percent_sign_is_refused() -> None:
    with pytest.raises(ValueError, match="write %% for a percent sign"):
        statement("SELECT name LIKE 'a%' FROM leases")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, r"missing \['a'\], unknown \[\]"),
        ({"b": 1}, r"missing \['a'\], unknown \['b'\]"),
        ({"a": 1, "b": 1}, r"missing \[\], unknown \['b'\]"),
    ],
)
def test_other_parameters_are_refused(given: dict[str, object], complaint: str) -> None:
    with pytest.raises(ParametersWrongError, match=complaint):
        statement("SELECT %(a)s").values(given)


def test_an_enum_of_texts_is_its_text() -> None:
    class Colour(StrEnum):
        RED = "red"

    assert "'red'" in statement(select(leases.c.key).where(leases.c.holder == Colour.RED)).text


def test_unqualified_names_are_found_in_the_declared_schema() -> None:
    assert SEARCH_PATH == SCHEMA


def test_a_process_whose_sql_is_written_out_does_not_load_sqlalchemy() -> None:
    program = (
        "import sys; from shared.database import Database, statement; statement('SELECT 1');"
        "print('sqlalchemy' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "False"

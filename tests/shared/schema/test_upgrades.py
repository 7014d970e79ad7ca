"""A database that the first release made and filled: what is there stays, and that code runs on."""

import io

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from psycopg.rows import dict_row

from shared.schema import history
from shared.schema.grants import role_of
from shared.schema.migrate import migrate, pending
from shared.schema.migrations import FOLDER
from shared.schema.revision import OLDEST_CODE, SCHEMA_REVISION
from shared.schema_fit import SchemaRow, mismatch
from tests.shared.schema.conftest import PASSWORDS, as_role

FIRST = 1
PUT = """
    INSERT INTO fencepost.endpoints (tenant, name, forge, forge_instance, proof, routes, bot_ids,
        wanted_events, drafts, body_limit_bytes)
    VALUES ('acme', %s, 'gitlab', 'gitlab.com', 'token', '[{"action": "a", "queue": "q"}]', '{7}',
        '{}', 'ignore', 0)
"""
"""As the first release makes an endpoint."""

REST = """
    INSERT INTO fencepost.schema_revision (revision, oldest_code) VALUES (1, 1);
    INSERT INTO fencepost.change_requests (tenant, forge_instance, repo_id, number, forge,
        repo_name, url, head_sha, generation, state)
    VALUES ('acme', 'gitlab.com', 1, 2, 'gitlab', 'a/b', '', repeat('a', 40), 1, 'open');
    INSERT INTO fencepost.intents (tenant, queue, key, key_label, action, generation, payload,
        content_type)
    VALUES ('acme', 'q', 'k', 'k', 'a', 1, 'p', 'text/plain')
"""
FILLED = (b"endpoints", b"change_requests", b"intents")


def first_release() -> str:
    """The SQL of its tables."""
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    config.attributes["output"] = io.StringIO()
    command.upgrade(config, f"{FIRST:04d}", sql=True)
    return str(config.attributes["output"].getvalue())


def rows(url: str) -> dict[bytes, list[dict[str, object]]]:
    """What the filled tables hold."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return {
            table: connection.execute(b"TABLE fencepost." + table).fetchall() for table in FILLED
        }


@pytest.fixture
def first_url(empty_url: str) -> str:
    """The owner's URL of such a database."""
    with psycopg.connect(empty_url) as connection:
        connection.execute(b"CREATE SCHEMA fencepost")
        connection.execute(first_release().encode())
        connection.execute(PUT, ["main"])
        connection.execute(REST)
    return empty_url


@pytest.mark.guarantee("X3")
def test_what_the_first_release_stored_is_upgraded_and_stays(first_url: str) -> None:
    before = rows(first_url)
    steps = history.steps_after(FIRST)
    assert [f"migration {step}" for step in steps] == list(pending(first_url))

    result = migrate(first_url, role_passwords=PASSWORDS)

    assert (result.found, result.revision, result.steps) == (FIRST, SCHEMA_REVISION, steps)
    after = rows(first_url)
    assert [row.pop("trusted_ids") for row in after[b"endpoints"]] == [[]]
    assert after == before
    assert pending(first_url) == ()


@pytest.mark.guarantee("X3")
def test_the_first_release_goes_on_writing_after_the_upgrade(first_url: str) -> None:
    migrate(first_url, role_passwords=PASSWORDS)
    row = SchemaRow(revision=SCHEMA_REVISION, oldest_code=OLDEST_CODE)
    assert mismatch(row, code=FIRST) is None
    with psycopg.connect(as_role(first_url, role_of("ingress"), PASSWORDS["ingress"])) as ingress:
        ingress.execute(PUT, ["next"])
    assert [row["trusted_ids"] for row in rows(first_url)[b"endpoints"]] == [[], []]

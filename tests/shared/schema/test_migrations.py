"""Migrations: one line of them, which leads to exactly the declared schema."""

import re
import time
from hashlib import sha256
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import Script, ScriptDirectory

from shared.schema import history, roles, transaction
from shared.schema.migrate import migrate, pending
from shared.schema.migrations import FOLDER, NeverDowngradeError
from shared.schema.refusals import CodeTooOldError, SchemaStrayedError, ServerTooOldError
from shared.schema.revision import OLDEST_CODE, SCHEMA_REVISION
from shared.schema.tables import metadata
from shared.schema.tables.base import SCHEMA
from tests.shared.schema.catalog import describe
from tests.shared.schema.conftest import Server

QUICK_S = 5.0
"""Some 0.2 s; the rest is for a busy machine."""

DIGESTS = {
    "0001": "d2e091802a074109e83085fb5b89a748a2c86bdefc704ae9c337908f38a12ec5",
    "0002": "ec2cdcabb3b9b9edee1e5320c9dc73b2ca7888b1429bdc1528f3baeca6938187",
    "0003": "49bea666eeefa8f73d2e431844ad731c476fb2332bc4cdec1e7d6eea9b54d2bf",
}
"""What each migration was when it was committed: another change of the schema is a new one."""


def scripts() -> list[Script]:
    """The migrations, oldest first."""
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    directory = ScriptDirectory.from_config(config)
    assert len(directory.get_heads()) == 1
    return list(reversed(list(directory.walk_revisions())))


def engine(url: str) -> sqlalchemy.Engine:
    """SQLAlchemy's way into the database."""
    return sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(url),
        poolclass=sqlalchemy.NullPool,
    )


def test_there_is_one_line_of_migrations_up_to_the_revision_of_the_code() -> None:
    line = scripts()

    assert [int(script.revision) for script in line] == list(range(1, SCHEMA_REVISION + 1))
    assert [script.down_revision for script in line[1:]] == [s.revision for s in line[:-1]]
    assert 1 <= OLDEST_CODE <= SCHEMA_REVISION
    assert history.steps_after(SCHEMA_REVISION) == ()


def digest(script: Script) -> str:
    """Of the module and its SQL."""
    module = Path(script.path)
    files = [module, *sorted(module.with_suffix("").glob("*.sql"))]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


@pytest.mark.guarantee("X3")
def test_a_committed_migration_is_never_changed() -> None:
    assert {script.revision: digest(script) for script in scripts()} == DIGESTS


@pytest.mark.guarantee("X3")
@pytest.mark.parametrize(
    "lacking",
    ["DROP TABLE fencepost.holds CASCADE", "ALTER TABLE fencepost.holds DROP released_at CASCADE"],
)
def test_a_schema_that_lacks_what_its_revision_has_is_told_in_a_sentence(
    migrated_url: str, lacking: str
) -> None:
    with psycopg.connect(migrated_url) as connection:
        connection.execute(lacking.encode())
    before = describe(migrated_url, SCHEMA)

    with pytest.raises(SchemaStrayedError, match=r"holds.* an unreleased version .* delete it"):
        migrate(migrated_url)

    assert describe(migrated_url, SCHEMA) == before


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.revision)
def test_each_migration_says_its_kind_and_refuses_to_go_back(script: Script) -> None:
    assert re.match(r"(Expand|Contract): \w", script.doc)
    with pytest.raises(NeverDowngradeError, match="never downgraded"):
        script.module.downgrade()


def test_the_migrated_schema_is_the_declared_one(migrated_url: str, server: Server) -> None:
    declared_url = server.new_database()
    with engine(declared_url).begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {SCHEMA}")
        metadata.create_all(connection)

    migrated = describe(migrated_url, SCHEMA)

    assert migrated == describe(declared_url, SCHEMA)
    assert len(migrated) > 300


def test_the_migrated_schema_is_the_declared_one_in_alembics_eyes(migrated_url: str) -> None:
    with engine(migrated_url).connect() as connection:
        options = {
            "include_schemas": True,
            "include_name": lambda name, kind, _: kind != "schema" or name == SCHEMA,
            "version_table_schema": SCHEMA,
            "compare_server_default": True,
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def test_a_migration_is_quick_and_says_what_it_did(empty_url: str) -> None:
    began = time.monotonic()
    first = migrate(empty_url)
    took_s = time.monotonic() - began

    assert took_s < QUICK_S
    assert (first.found, first.revision) == (0, SCHEMA_REVISION)
    assert first.steps == history.steps_after(0)
    assert first.privileges_changed > 100


def test_a_second_migration_changes_nothing(migrated_url: str) -> None:
    before = describe(migrated_url, SCHEMA), rows(migrated_url)

    second = migrate(migrated_url)

    assert (second.found, second.steps, second.privileges_changed) == (SCHEMA_REVISION, (), 0)
    assert (describe(migrated_url, SCHEMA), rows(migrated_url)) == before


def rows(url: str) -> list[tuple[object, ...]]:
    """What the database says of itself."""
    with psycopg.connect(url) as connection:
        return [
            *connection.execute("TABLE fencepost.schema_revision"),
            *connection.execute("TABLE fencepost.incarnations"),
        ]


def test_pending_work_is_named_until_it_is_done(empty_url: str) -> None:
    assert pending(empty_url) == tuple(f"migration {step}" for step in history.steps_after(0))
    migrate(empty_url)
    assert pending(empty_url) == ()


def test_looking_for_what_is_pending_cannot_write(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def writing(connection: psycopg.Connection) -> list[str]:
        connection.execute("DELETE FROM fencepost.schema_revision")
        return []

    monkeypatch.setattr(roles, "missing", writing)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        pending(migrated_url)


@pytest.mark.guarantee("X3")
def test_the_schema_row_carries_its_revision_and_the_oldest_code(migrated_url: str) -> None:
    with psycopg.connect(migrated_url) as connection:
        row = connection.execute(
            "SELECT revision, oldest_code FROM fencepost.schema_revision"
        ).fetchall()
    assert row == [(SCHEMA_REVISION, OLDEST_CODE)]


@pytest.mark.guarantee("X3")
def test_old_code_leaves_a_newer_schema_as_it_is(migrated_url: str) -> None:
    with psycopg.connect(migrated_url) as connection:
        connection.execute("UPDATE fencepost.schema_revision SET revision = revision + 1")
        connection.execute("GRANT SELECT ON fencepost.holds TO fencepost_ingress")

    result = migrate(migrated_url)

    assert (result.found, result.revision) == (SCHEMA_REVISION + 1, SCHEMA_REVISION + 1)
    assert result.privileges_changed == 0
    assert pending(migrated_url) == ()
    with psycopg.connect(migrated_url) as connection:
        kept = connection.execute(
            "SELECT revision, has_table_privilege('fencepost_ingress', 'fencepost.holds', 'SELECT')"
            " FROM fencepost.schema_revision"
        ).fetchone()
    assert kept == (SCHEMA_REVISION + 1, True)


@pytest.mark.guarantee("X3")
def test_code_that_is_too_old_refuses_and_says_so(migrated_url: str) -> None:
    with psycopg.connect(migrated_url) as connection:
        connection.execute(
            "UPDATE fencepost.schema_revision SET revision = revision + 2, oldest_code = revision+1"
        )
    for attempt in (migrate, pending):
        with pytest.raises(CodeTooOldError, match="run a newer release"):
            attempt(migrated_url)


def test_a_server_that_is_too_old_is_refused_and_told(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "OLDEST_MAJOR", 99)
    for attempt in (migrate, pending):
        with pytest.raises(ServerTooOldError, match=r"Fencepost needs 99 or newer: upgrade it"):
            attempt(migrated_url)

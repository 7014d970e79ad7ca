"""Each service's role can do what GRANTS says, all of it and nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql

from shared.schema.grants import (
    CROSS_SERVICE_WRITES,
    GRANTS,
    SEQUENCE_USAGE,
    SERVICES,
    Service,
)
from shared.schema.migrate import migrate
from shared.schema.tables import metadata
from shared.schema.tables.base import SCHEMA
from tests.database_server import as_service
from tests.shared.schema.conftest import Server

TABLE_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
COLUMN_VERBS = ("SELECT", "INSERT", "UPDATE", "REFERENCES")
LOCKED = ("change_requests", "leases", "merge_groups")
ARCHITECTURE = Path(__file__).parents[3] / "ARCHITECTURE.md"
OWNER_ROW = re.compile(r"^\| \*\*(?P<service>\w+)\*\* \| (?P<tables>[a-z_, ]+) \|", re.MULTILINE)
WRITTEN_BY_SEVERAL = {"audit_entries", "request_ids"}
WRITTEN_BY_THE_OWNER = {"schema_revision", "incarnations"}


@pytest.fixture(scope="module")
def shared_url(server: Server) -> str:
    """A migrated database that the tests of this module only read, or roll back."""
    url = server.new_database()
    migrate(url)
    return url


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest) -> Service:
    """Each service in turn."""
    service: Service = request.param
    return service


@pytest.fixture
def role(shared_url: str, service: Service) -> Iterator[psycopg.Connection]:
    """A connection as the service; what it writes is rolled back."""
    with psycopg.connect(as_service(shared_url, service)) as connection:
        yield connection
        connection.rollback()


def granted(service: Service, table: str) -> set[tuple[str, tuple[str, ...]]]:
    """Verbs with the columns that GRANTS gives a service on a table."""
    return {
        (grant.verb, tuple(sorted(grant.columns)))
        for grant in GRANTS
        if (grant.service, grant.table) == (service, table)
    }


@pytest.mark.guarantee("X2")
def test_a_role_has_exactly_the_declared_verbs_on_each_table(
    role: psycopg.Connection, service: Service
) -> None:
    for table in metadata.tables.values():
        held = {
            (verb, ())
            for verb in TABLE_VERBS
            if answer(role, "SELECT has_table_privilege(%s, %s)", table.fullname, verb)
        }
        assert held == {grant for grant in granted(service, table.name) if not grant[1]}, table


@pytest.mark.guarantee("X2")
def test_a_role_has_exactly_the_declared_verbs_on_each_column(
    role: psycopg.Connection, service: Service
) -> None:
    for table in metadata.tables.values():
        whole = {verb for verb, columns in granted(service, table.name) if not columns}
        for verb in COLUMN_VERBS:
            held = {
                column.name
                for column in table.columns
                if answer(
                    role,
                    "SELECT has_column_privilege(%s, %s, %s)",
                    table.fullname,
                    column.name,
                    verb,
                )
            }
            by_name = {
                c for v, columns in granted(service, table.name) if v == verb for c in columns
            }
            assert held == (set(table.columns.keys()) if verb in whole else by_name), table


@pytest.mark.guarantee("X2")
def test_a_role_uses_exactly_the_declared_sequences(
    role: psycopg.Connection, service: Service
) -> None:
    names = role.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'S' AND relnamespace = %s::regnamespace",
        [SCHEMA],
    ).fetchall()
    for verb in ("USAGE", "SELECT", "UPDATE"):
        held = {
            (service, name)
            for (name,) in names
            if answer(role, "SELECT has_sequence_privilege(%s, %s)", f"{SCHEMA}.{name}", verb)
        }
        declared = {each for each in SEQUENCE_USAGE if each[0] == service}
        assert held == (declared if verb == "USAGE" else set())


def answer(connection: psycopg.Connection, query: str, *values: str) -> bool:
    """One truth from the server."""
    row = connection.execute(query.encode(), values).fetchone()
    assert row is not None
    return bool(row[0])


@pytest.mark.guarantee("X2")
def test_the_audit_trail_is_append_only_for_every_role(role: psycopg.Connection) -> None:
    for statement in (
        "UPDATE fencepost.audit_entries SET reason = 'another'",
        "DELETE FROM fencepost.audit_entries",
        "TRUNCATE fencepost.audit_entries",
        """INSERT INTO fencepost.audit_entries (entry_id, tenant, key_id, action, subject)
            OVERRIDING SYSTEM VALUE VALUES (1, 't', 'k', 'a', 's')
            ON CONFLICT (entry_id) DO UPDATE SET reason = 'another'""",
    ):
        refused(role, statement)


@pytest.mark.guarantee("X3")
def test_no_role_may_change_the_schema(role: psycopg.Connection) -> None:
    for statement in (
        "CREATE TABLE fencepost.mine (id bigint)",
        "CREATE TABLE public.mine (id bigint)",
        "CREATE SCHEMA mine",
        "ALTER TABLE fencepost.leases ADD COLUMN mine text",
        "ALTER TABLE fencepost.leases DROP CONSTRAINT leases_lock_only_check",
        "CREATE INDEX ON fencepost.leases (holder)",
        "DROP TABLE fencepost.leases",
        "TRUNCATE fencepost.leases",
        "UPDATE fencepost.schema_revision SET revision = 1",
        """INSERT INTO fencepost.incarnations (system_identifier, timeline, database_oid)
            VALUES ('s', 1, 1)""",
        "SELECT version_num FROM fencepost.alembic_version",
        "SELECT setval('fencepost.ready_number', 1)",
        "CREATE ROLE mine",
        "SET ROLE fencepost_owner",
    ):
        refused(role, statement)


def refused(connection: psycopg.Connection, statement: str) -> None:
    """The server says that this role lacks the privilege or does not own the object."""
    with pytest.raises(errors.InsufficientPrivilege), connection.transaction():
        connection.execute(statement.encode())


@pytest.mark.guarantee("X2")
@pytest.mark.parametrize(
    ("service", "table"),
    [("publisher", "leases"), ("publisher", "change_requests"), ("dispatcher", "change_requests")],
)
def test_a_role_that_may_only_lock_can_lock_and_change_nothing(
    migrated_url: str, service: Service, table: str
) -> None:
    with psycopg.connect(migrated_url) as owner:
        owner.execute(ROWS[table].encode())
    name = sql.Identifier(SCHEMA, table)
    with psycopg.connect(as_service(migrated_url, service)) as role:
        select = sql.SQL("SELECT lock_only FROM {} FOR UPDATE").format(name)
        assert role.execute(select).fetchall() == [(0,)]
        role.execute(sql.SQL("UPDATE {} SET lock_only = 0").format(name))
        with pytest.raises(errors.CheckViolation), role.transaction():
            role.execute(sql.SQL("UPDATE {} SET lock_only = 1").format(name))
        for column in metadata.tables[f"{SCHEMA}.{table}"].columns:
            if column.name != "lock_only":
                change = sql.SQL("UPDATE {} SET {} = DEFAULT")
                change_it = change.format(name, sql.Identifier(column.name))
                refused(role, change_it.as_string(role))
        refused(role, sql.SQL("DELETE FROM {}").format(name).as_string(role))


ROWS = {
    "leases": """
        INSERT INTO fencepost.leases (tenant, key, action, generation, state, epoch, holder,
            intent_id, queue, priority, attempts, grant_id, lease_ms, granted_at, renewed_at,
            claimable_at)
        VALUES ('t', 'k', 'a', 1, 'running', 1, 'h', 1, 'q', 0, 1, 'g', 1, now(), now(), now())
    """,
    "change_requests": """
        INSERT INTO fencepost.change_requests (tenant, forge_instance, repo_id, number, forge,
            repo_name, url, head_sha, generation, state)
        VALUES ('t', 'f', 1, 1, 'github', 'o/r', 'u', 'h', 1, 'open')
    """,
}


def test_every_update_names_its_columns_and_every_name_exists() -> None:
    for grant in GRANTS:
        table = metadata.tables[f"{SCHEMA}.{grant.table}"]
        assert set(grant.columns) <= set(table.columns.keys()), grant
        assert bool(grant.columns) == (grant.verb == "UPDATE"), grant


def test_whoever_may_only_lock_anothers_rows_stands_in_the_closed_list() -> None:
    listed = {grant for grants in CROSS_SERVICE_WRITES.values() for grant in grants}

    lockers = {
        grant
        for grant in GRANTS
        if grant.columns == ("lock_only",) and owners().get(grant.table) != grant.service
    }

    assert lockers
    assert lockers <= listed
    assert {grant.table for grant in lockers} == set(LOCKED)


def owners() -> dict[str, str]:
    """Which service owns each table, as the page says that people read."""
    return {
        table: row["service"]
        for row in OWNER_ROW.finditer(ARCHITECTURE.read_text())
        for table in row["tables"].split(", ")
    }


def test_every_table_has_an_owner() -> None:
    tables = {table.name for table in metadata.tables.values()}
    assert owners().keys() | WRITTEN_BY_SEVERAL | WRITTEN_BY_THE_OWNER == tables
    page = ARCHITECTURE.read_text()
    ownerless = WRITTEN_BY_SEVERAL | WRITTEN_BY_THE_OWNER
    assert [table for table in sorted(ownerless) if f"`{table}`" not in page] == []


def test_a_write_on_anothers_table_stands_in_the_closed_list() -> None:
    foreign = {
        grant
        for grant in GRANTS
        if grant.verb != "SELECT"
        and grant.table not in WRITTEN_BY_SEVERAL
        and owners().get(grant.table) != grant.service
    }
    listed = {grant for grants in CROSS_SERVICE_WRITES.values() for grant in grants}
    assert foreign == {grant for grant in listed if grant.verb != "SELECT"}

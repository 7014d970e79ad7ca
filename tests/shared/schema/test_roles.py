"""The services' roles: made by the owner where it may, else by an administrator's hand."""

import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from shared.embedded import EmbeddedPostgres
from shared.embedded.binaries import system_folders
from shared.embedded.cluster import OWNER
from shared.schema.grants import SERVICES, role_of
from shared.schema.migrate import migrate, pending
from shared.schema.refusals import (
    OwnerNotAllowedError,
    PasswordDiffersError,
    PasswordNotSetError,
    RolesMissingError,
    RoleUnfitError,
)
from shared.schema.roles import Login, login_in, url_as
from shared.schema.script import migration_script
from shared.schema.tables.base import SCHEMA
from shared.schema.transaction import TURN, Limits
from tests.database_server import as_service
from tests.shared.schema.catalog import describe
from tests.shared.schema.conftest import PASSWORDS, Server, as_role, as_superuser, database_of

KINDS = pytest.mark.parametrize("bare_database", ["embedded", "system"], indirect=True)
ROLES = tuple(role_of(service) for service in SERVICES)
LIMITED = "limited_owner"


def execute(url: str, *statements: str) -> None:
    """Runs statements, each at once."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def limited_owner(server: Server) -> str:
    """URL of a database whose owner may make neither roles nor databases.

    The server's owner, who may, plays the administrator.
    """
    execute(
        server.owner_url,
        f"CREATE ROLE {LIMITED} LOGIN PASSWORD 'limited'",
        f"GRANT {LIMITED} TO CURRENT_USER",
    )
    url = server.new_database(owner=LIMITED)
    execute(url, f"GRANT CREATE ON DATABASE {database_of(url)} TO {LIMITED}")
    return as_role(url, LIMITED, "limited")


def roles_of(url: str) -> set[str]:
    """Roles of ours that exist."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'fencepost%'")
        return {name for (name,) in rows} & set(ROLES)


@KINDS
def test_an_owner_with_createrole_makes_roles_that_log_in(bare_server: Server) -> None:
    result = migrate(bare_server.owner_url, role_passwords=PASSWORDS)

    assert result.roles_made == ROLES
    for service in SERVICES:
        with psycopg.connect(as_service(bare_server.owner_url, service)) as connection:
            row = connection.execute(
                "SELECT current_user, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls"
                " FROM pg_roles WHERE rolname = current_user"
            ).fetchone()
            assert row == (role_of(service), False, False, False, False)
    assert migrate(bare_server.owner_url, role_passwords=PASSWORDS).roles_made == ()


def test_a_new_password_replaces_the_old_one(bare_server: Server) -> None:
    url = bare_server.owner_url
    migrate(url)
    for password in ("first", "it's the \\second"):
        migrate(url, role_passwords={"ingress": password})
        psycopg.connect(as_role(url, "fencepost_ingress", password)).close()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(as_role(url, "fencepost_ingress", "first"))


def test_a_password_that_others_use_is_left_alone_when_asked(bare_server: Server) -> None:
    url = bare_server.owner_url
    migrate(url, role_passwords={"ingress": "theirs"})

    with pytest.raises(PasswordDiffersError, match=r"set INGRESS_DATABASE_URL.* services migrate"):
        migrate(url, role_passwords={"ingress": "ours"}, replace_passwords=False)

    migrate(url, role_passwords={"ingress": "theirs"}, replace_passwords=False)
    psycopg.connect(as_role(url, "fencepost_ingress", "theirs")).close()


@pytest.mark.parametrize(
    ("owner", "service"),
    [
        (
            "postgresql://me:se%40cret@db.example:5433/prod?sslmode=require",
            "postgresql://fencepost_ingress:a%2Fb%40c@db.example:5433/prod?sslmode=require",
        ),
        (
            "postgresql:///prod?host=/run/postgresql",
            "postgresql://fencepost_ingress:a%2Fb%40c@/prod?host=/run/postgresql",
        ),
    ],
)
def test_a_services_url_is_the_owners_with_another_login(owner: str, service: str) -> None:
    url = url_as(owner, "ingress", "a/b@c")

    assert url == service
    assert login_in(url) == Login("fencepost_ingress", "a/b@c")


def test_the_server_is_never_told_a_password_in_clear(bare_database: EmbeddedPostgres) -> None:
    bare_database.stop()
    loud = EmbeddedPostgres(bare_database.log_file.parent, settings={"log_statement": "all"})
    with loud:
        for password in ("first-in-clear", "second-in-clear"):
            migrate(loud.url, role_passwords={"ingress": password})

    said = loud.log_file.read_text()
    assert 'CREATE ROLE "fencepost_ingress" LOGIN NOINHERIT PASSWORD' in said
    assert 'ALTER ROLE "fencepost_ingress" PASSWORD' in said
    assert "in-clear" not in said


@KINDS
def test_without_roles_nothing_is_changed_and_the_sentence_says_how_to_make_them(
    bare_server: Server,
) -> None:
    url = limited_owner(bare_server)

    with pytest.raises(RolesMissingError) as refused:
        migrate(url, role_passwords=PASSWORDS)

    assert "python -m services migrate --sql" in str(refused.value)
    assert "fencepost_publisher" in str(refused.value)
    assert LIMITED in str(refused.value)
    assert describe(url, SCHEMA) == {}
    assert len([phrase for phrase in pending(url) if "is missing" in phrase]) == 4


def psql() -> Path:
    """The system's psql."""
    for folder in system_folders():
        if (folder / "psql").exists():
            return folder / "psql"
    pytest.skip("there is no psql")


@KINDS
def test_an_administrator_runs_the_printed_script(bare_server: Server, tmp_path: Path) -> None:
    url = limited_owner(bare_server)
    database = database_of(url)
    execute(url, f"GRANT CREATE ON DATABASE {database} TO {OWNER}")
    script = tmp_path / "fencepost.sql"
    script.write_text(migration_script(url, Limits()))

    admin_url = make_conninfo(bare_server.owner_url, dbname=database)
    command = [str(psql()), "-Xq", "-v", "ON_ERROR_STOP=1", "-d", admin_url, "-f", str(script)]
    subprocess.run(command, check=True, capture_output=True, text=True)

    assert roles_of(url) == set(ROLES)
    assert pending(url) == ()
    result = migrate(url)
    assert (result.steps, result.roles_made, result.privileges_changed) == ((), (), 0)
    migrate(bare_server.owner_url)
    assert describe(url, SCHEMA) == describe(bare_server.owner_url, SCHEMA)
    assert owners_of_tables(url) == {LIMITED}


def owners_of_tables(url: str) -> set[str]:
    """Whom the schema's tables belong to."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tableowner FROM pg_tables WHERE schemaname = 'fencepost'")
        return {owner for (owner,) in rows}


def test_the_script_holds_no_password(bare_server: Server) -> None:
    script = migration_script(bare_server.owner_url, Limits())

    assert "PASSWORD" not in script
    assert "\\password fencepost_ingress" in script


def test_the_script_takes_its_turn_and_bounds_its_waits_before_it_changes_anything(
    empty_url: str,
) -> None:
    script = migration_script(empty_url, Limits(lock_timeout_ms=70))

    steps = (
        "BEGIN;",
        "SET LOCAL lock_timeout = '70ms'",
        f"pg_advisory_xact_lock({TURN})",
        "CREATE",
    )
    found = [script.find(step) for step in steps]
    assert -1 not in found
    assert found == sorted(found)


def test_a_script_for_a_migrated_database_has_no_migration(bare_server: Server) -> None:
    migrate(bare_server.owner_url)

    script = migration_script(bare_server.owner_url, Limits())

    assert "CREATE TABLE" not in script
    assert "CREATE ROLE" not in script
    assert "\\password" not in script
    execute(bare_server.owner_url, script.replace("BEGIN;", "").replace("COMMIT;", ""))
    assert pending(bare_server.owner_url) == ()


@KINDS
def test_an_owner_without_createrole_uses_roles_that_others_made(bare_server: Server) -> None:
    migrate(bare_server.owner_url, role_passwords=PASSWORDS)
    url = limited_owner(bare_server)

    result = migrate(url, role_passwords=PASSWORDS)

    assert result.roles_made == ()
    assert pending(url) == ()
    with pytest.raises(PasswordNotSetError, match=r"psql: \\password fencepost_watchdog"):
        migrate(url, role_passwords={"watchdog": "another"})


@pytest.mark.guarantee("X3")
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("ALTER ROLE fencepost_ingress CREATEROLE", "may make roles"),
        ("ALTER ROLE fencepost_ingress NOLOGIN", "may not log in"),
    ],
)
def test_a_role_that_may_do_more_than_a_service_is_refused(
    bare_server: Server, change: str, fault: str
) -> None:
    url = bare_server.owner_url
    migrate(url)
    execute(url, change)

    with pytest.raises(RoleUnfitError, match=f"fencepost_ingress {fault}"):
        migrate(url)
    assert any(f"role fencepost_ingress {fault}" in phrase for phrase in pending(url))


@pytest.mark.guarantee("X2")
@pytest.mark.parametrize(
    ("attribute", "fault"),
    [("SUPERUSER", "is a superuser"), ("BYPASSRLS", "bypasses row security")],
)
def test_a_role_that_no_privilege_binds_is_refused(
    bare_database: EmbeddedPostgres, attribute: str, fault: str
) -> None:
    migrate(bare_database.url)
    as_superuser(bare_database, f"ALTER ROLE fencepost_ingress {attribute}")

    with pytest.raises(RoleUnfitError, match=f"fencepost_ingress {fault}"):
        migrate(bare_database.url)
    assert any(f"role fencepost_ingress {fault}" in each for each in pending(bare_database.url))


@pytest.mark.guarantee("X3")
def test_a_role_that_may_become_the_owner_is_refused(bare_server: Server) -> None:
    migrate(bare_server.owner_url)
    url = limited_owner(bare_server)
    execute(bare_server.owner_url, f"GRANT {LIMITED} TO fencepost_watchdog")

    with pytest.raises(RoleUnfitError, match="fencepost_watchdog is a member of the owner"):
        migrate(url)


@pytest.mark.guarantee("X3")
def test_a_service_that_tries_to_migrate_is_refused(bare_server: Server) -> None:
    migrated, empty = bare_server.owner_url, bare_server.new_database()
    migrate(migrated, role_passwords=PASSWORDS)

    for url in (migrated, empty):
        before = describe(url, SCHEMA)
        with pytest.raises(OwnerNotAllowedError, match="fencepost_ingress may not do this"):
            migrate(as_service(url, "ingress"))
        assert describe(url, SCHEMA) == before

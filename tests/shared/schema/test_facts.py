"""What the database is told of itself."""

import psycopg
import pytest

from shared.embedded import EmbeddedPostgres
from shared.schema.facts import UNKNOWN_SYSTEM
from shared.schema.migrate import migrate
from tests.shared.schema.conftest import Server, as_superuser


def incarnations(url: str) -> list[tuple[object, ...]]:
    """The recorded incarnations."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT system_identifier, timeline, database_oid FROM fencepost.incarnations"
        ).fetchall()


def test_the_first_incarnation_is_what_the_server_says(migrated_url: str) -> None:
    with psycopg.connect(migrated_url) as connection:
        said = connection.execute(
            "SELECT system_identifier::text, timeline_id, oid"
            " FROM pg_control_system(), pg_control_checkpoint(), pg_database"
            " WHERE datname = current_database()"
        ).fetchall()
    assert incarnations(migrated_url) == said


def test_where_control_functions_are_refused_the_rest_is_recorded(
    bare_database: EmbeddedPostgres,
) -> None:
    forbid_control_functions(bare_database)
    url = Server(bare_database.url).new_database(template="postgres")

    migrate(url)

    ((system, timeline, _),) = incarnations(url)
    assert (system, timeline) == (UNKNOWN_SYSTEM, 1)
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT pg_control_system()")


def forbid_control_functions(database: EmbeddedPostgres) -> None:
    """Revokes them in a database that new ones may be made of."""
    as_superuser(
        database,
        "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
        "REVOKE EXECUTE ON FUNCTION pg_control_checkpoint() FROM PUBLIC",
        "UPDATE pg_database SET datistemplate = true WHERE datname = 'postgres'",
    )

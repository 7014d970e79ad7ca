"""Privileges that drifted from the declaration are named, and mended by the next migration."""

import psycopg
import pytest

from shared.schema import privileges
from shared.schema.migrate import migrate, pending


def run(url: str, *statements: str) -> None:
    """Runs statements as the owner."""
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@pytest.mark.parametrize(
    ("drift", "named", "changes"),
    [
        (
            "REVOKE SELECT ON fencepost.api_keys FROM fencepost_ingress",
            ["grant SELECT on table fencepost.api_keys for fencepost_ingress"],
            1,
        ),
        (
            "REVOKE UPDATE (lock_only) ON fencepost.leases FROM fencepost_publisher",
            ["grant UPDATE (lock_only) on table fencepost.leases for fencepost_publisher"],
            1,
        ),
        (
            "REVOKE USAGE ON SCHEMA fencepost FROM fencepost_watchdog",
            ["grant USAGE on schema fencepost for fencepost_watchdog"],
            1,
        ),
        (
            "REVOKE USAGE ON SEQUENCE fencepost.ready_number FROM fencepost_ingress",
            ["grant USAGE on sequence fencepost.ready_number for fencepost_ingress"],
            1,
        ),
        (
            "GRANT DELETE ON fencepost.audit_entries TO fencepost_watchdog",
            ["revoke DELETE on table fencepost.audit_entries for fencepost_watchdog"],
            1,
        ),
        (
            "GRANT UPDATE (reason) ON fencepost.audit_entries TO fencepost_watchdog",
            ["revoke UPDATE (reason) on table fencepost.audit_entries for fencepost_watchdog"],
            1,
        ),
        (
            "GRANT SELECT ON fencepost.holds TO PUBLIC",
            ["revoke SELECT on table fencepost.holds for PUBLIC"],
            1,
        ),
        (
            "GRANT CREATE ON SCHEMA fencepost TO fencepost_ingress",
            ["revoke CREATE on schema fencepost for fencepost_ingress"],
            1,
        ),
        (
            "GRANT UPDATE ON fencepost.leases TO fencepost_publisher",
            ["revoke UPDATE on table fencepost.leases for fencepost_publisher"],
            2,  # and its column, which the server revokes with the table
        ),
        (
            "GRANT SELECT ON fencepost.runs TO fencepost_publisher WITH GRANT OPTION",
            [
                "grant SELECT on table fencepost.runs for fencepost_publisher",
                "revoke SELECT on table fencepost.runs for fencepost_publisher with grant option",
            ],
            2,
        ),
    ],
)
@pytest.mark.guarantee("X2")
def test_drift_is_named_and_mended(
    migrated_url: str, drift: str, named: list[str], changes: int
) -> None:
    run(migrated_url, drift)

    assert list(pending(migrated_url)) == named
    assert migrate(migrated_url).privileges_changed == changes
    assert pending(migrated_url) == ()
    with psycopg.connect(migrated_url) as connection:
        assert privileges.held(connection) == privileges.declared()


def test_what_others_were_given_is_left_alone(migrated_url: str) -> None:
    run(migrated_url, "GRANT SELECT ON fencepost.runs TO pg_monitor")

    assert pending(migrated_url) == ()
    assert migrate(migrated_url).privileges_changed == 0


def test_the_script_makes_any_database_as_declared(migrated_url: str) -> None:
    run(
        migrated_url,
        "GRANT ALL ON ALL TABLES IN SCHEMA fencepost TO PUBLIC",
        "GRANT UPDATE (reason) ON fencepost.audit_entries TO fencepost_watchdog",
        "GRANT ALL ON ALL SEQUENCES IN SCHEMA fencepost TO fencepost_publisher",
        "REVOKE USAGE ON SCHEMA fencepost FROM fencepost_ingress",
    )
    with psycopg.connect(migrated_url) as connection:
        roles = {privilege.role for privilege in privileges.declared()}
        for statement in privileges.script(sorted(roles)):
            connection.execute(statement.as_bytes(connection))
        assert privileges.held(connection) == privileges.declared()

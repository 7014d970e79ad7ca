"""`python -m services migrate` as people and containers run it."""

import secrets
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from shared.schema.revision import SCHEMA_REVISION
from tests.database_server import as_service, url_of


@pytest.fixture
def empty_url(owner_url: str) -> str:
    """The owner's URL of a database without a schema; it goes with the server."""
    name = f"empty_{secrets.token_hex(8)}"
    with psycopg.connect(owner_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return url_of(owner_url, dbname=name)


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command with nothing but these variables."""
    return subprocess.run(
        [sys.executable, "-m", "services", "migrate", *arguments],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.guarantee("X3")
def test_check_names_what_is_pending_and_migrate_does_it(empty_url: str) -> None:
    checked = run("--check", DATABASE_URL=empty_url)
    assert (checked.returncode, "Pending:" in checked.stdout) == (3, True)
    assert "migration 0001 Expand: " in checked.stdout

    migrated = run(DATABASE_URL=empty_url)
    assert migrated.returncode == 0, migrated.stderr
    assert migrated.stdout.startswith("migrated: 0001 Expand: ")
    assert migrated.stdout.endswith(f"The schema is at revision {SCHEMA_REVISION}.\n")

    again = run("--check", DATABASE_URL=empty_url)
    assert (again.returncode, again.stdout) == (0, "Nothing is pending.\n")


def test_the_url_may_stand_in_a_file_and_is_never_shown(empty_url: str, tmp_path: Path) -> None:
    secret = tmp_path / "owner-url"
    secret.write_text(f"{empty_url}\n")

    printed = run("--sql", DATABASE_URL_FILE=str(secret))

    assert printed.returncode == 0, printed.stderr
    assert "CREATE TABLE fencepost.leases" in printed.stdout
    assert empty_url not in printed.stdout
    assert run("--check", DATABASE_URL_FILE=str(secret)).returncode == 3

    service = tmp_path / "service-url"
    service.write_text(as_service(empty_url, "ingress"))
    strange = run("--check", DATABASE_URL=empty_url, WATCHDOG_DATABASE_URL_FILE=str(service))
    assert "WATCHDOG_DATABASE_URL logs in as 'fencepost_ingress'" in strange.stderr


def test_nothing_is_done_without_the_owners_url_or_with_a_stranger_for_a_service(
    empty_url: str,
) -> None:
    unset = run()
    assert unset.returncode == 2
    assert "DATABASE_URL or DATABASE_URL_FILE must be set" in unset.stderr

    strange = run(DATABASE_URL=empty_url, INGRESS_DATABASE_URL=as_service(empty_url, "watchdog"))
    assert strange.returncode == 2
    assert "INGRESS_DATABASE_URL logs in as 'fencepost_watchdog'" in strange.stderr
    assert run("--check", DATABASE_URL=empty_url).returncode == 3


def test_a_misspelt_limit_is_refused_before_anything_is_done(empty_url: str) -> None:
    misspelt = run(DATABASE_URL=empty_url, MIGRATE_LOCK_TIMEOUT="5")

    assert misspelt.returncode == 2
    assert (
        "MIGRATE_LOCK_TIMEOUT: no such setting; did you mean MIGRATE_LOCK_TIMEOUT_MS?"
        in misspelt.stderr
    )
    # Of a Service in Kubernetes, and what services read of the same file of variables.
    others = {"MIGRATE_SERVICE_HOST": "10.0.0.1", "FENCEPOST_LOG_LEVEL": "info"}
    known = {"MIGRATE_LOCK_TIMEOUT_MS": "500"}
    assert run("--check", DATABASE_URL=empty_url, **known, **others).returncode == 3


def test_a_refusal_is_one_sentence_without_the_password(empty_url: str) -> None:
    wrong = url_of(empty_url, password="not-this-one")

    refused = run(DATABASE_URL=wrong)

    assert refused.returncode == 1
    assert refused.stdout == ""
    assert "cannot be reached as the owner" in refused.stderr
    assert "not-this-one" not in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_unknown_command_is_told_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "services", "migrat"],
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no command 'migrat'" in done.stderr
    assert "python -m services bootstrap" in done.stderr

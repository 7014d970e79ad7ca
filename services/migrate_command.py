"""`python -m services migrate [--check | --sql]`: the one-shot step before services start."""

import argparse
import sys
from collections.abc import Sequence

from services.command_settings import MigrateSettings
from shared.schema.migrate import MigrationResult, migrate, pending
from shared.schema.refusals import MigrationRefusedError
from shared.schema.revision import SCHEMA_REVISION
from shared.schema.script import migration_script
from shared.settings import load

EXIT_REFUSED = 1
EXIT_PENDING = 3


def main(arguments: Sequence[str]) -> int:
    """Migrates, names what is pending, or prints it; returns the exit code."""
    options = _parser().parse_args(arguments)
    settings = load(MigrateSettings)
    url = settings.database_url.get_secret_value()
    try:
        if options.sql:
            return _say(migration_script(url, settings.limits))
        if options.check:
            return _say_pending(pending(url))
        return _say_done(
            migrate(url, role_passwords=settings.role_passwords, limits=settings.limits)
        )
    except MigrationRefusedError as refused:
        sys.stderr.write(f"{refused}\n")
        return EXIT_REFUSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m services migrate",
        description="Brings the database of DATABASE_URL (or DATABASE_URL_FILE) to the schema of "
        "this code, with the services' roles and their privileges; safe to run again, and from "
        "several places at once. Passwords of roles come from the <SERVICE>_DATABASE_URLs.",
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--check",
        action="store_true",
        help=f"change nothing; name what is pending and exit {EXIT_PENDING} if anything is",
    )
    instead.add_argument(
        "--sql",
        action="store_true",
        help="change nothing; print a script with which an administrator does the same",
    )
    return parser


def _say(text: str, *, code: int = 0) -> int:
    sys.stdout.write(f"{text}\n")
    return code


def _say_pending(phrases: Sequence[str]) -> int:
    if not phrases:
        return _say("Nothing is pending.")
    return _say("\n".join(["Pending:", *(f"  {p}" for p in phrases)]), code=EXIT_PENDING)


def _say_done(result: MigrationResult) -> int:
    if result.revision > SCHEMA_REVISION:
        return _say(
            f"The schema is at revision {result.revision}, newer than this code's "
            f"{SCHEMA_REVISION}; nothing was changed."
        )
    done = [
        *(f"migrated: {step}" for step in result.steps),
        *(f"made the role {role}" for role in result.roles_made),
    ]
    if result.privileges_changed:
        done.append(f"granted or revoked {result.privileges_changed} privileges")
    return _say("\n".join([*done, f"The schema is at revision {result.revision}."]))

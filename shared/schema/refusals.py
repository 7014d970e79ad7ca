"""Why a migration was not run; each text is a sentence that says what to do."""

from collections.abc import Iterable


class MigrationRefusedError(Exception):
    """Nothing was changed; the text tells a person what to do."""


class DatabaseUnreachableError(MigrationRefusedError):
    """The owner's URL leads to no database."""

    def __init__(self, where: str, said: str) -> None:
        super().__init__(
            f"The database {where} cannot be reached as the owner ({said}): "
            "check DATABASE_URL and that the server runs."
        )


class ServerTooOldError(MigrationRefusedError):
    """PostgreSQL is older than the schema needs."""

    def __init__(self, *, major: int, oldest: int) -> None:
        super().__init__(
            f"The server is PostgreSQL {major} and Fencepost needs {oldest} or newer: "
            "upgrade it, or set DATABASE_URL to another server."
        )


class CodeTooOldError(MigrationRefusedError):
    """The schema has gone where this code cannot follow."""

    def __init__(self, *, found: int, oldest_code: int, ours: int) -> None:
        super().__init__(
            f"The schema is at revision {found}, which code of revision {oldest_code} or newer "
            f"may use, and this code is of revision {ours}: run a newer release."
        )


class SchemaStrayedError(MigrationRefusedError):
    """The schema lacks what its own revision has."""

    def __init__(self, said: str) -> None:
        super().__init__(
            f"The database lacks what its own revision has ({said}), because an unreleased version "
            "of Fencepost made it; nothing was changed. If its data may be lost, delete it (of a "
            "suite with its own database: the data folder) and run this again; otherwise keep to "
            "the code that made it."
        )


class TurnNotComeError(MigrationRefusedError):
    """Another migration of the same database took too long."""

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(
            f"Another migration of this database has been running for {timeout_ms} ms: "
            "wait until it has ended and run this again, or raise MIGRATE_TURN_TIMEOUT_MS."
        )


class LockNotObtainedError(MigrationRefusedError):
    """Somebody uses what the migration would change."""

    def __init__(self, timeout_ms: int, statement: str) -> None:
        super().__init__(
            f"A lock was not obtained within {timeout_ms} ms ({statement}), because another "
            "transaction uses what this migration changes; nothing was changed. Run it again at a "
            "quieter time, end that transaction, or raise MIGRATE_LOCK_TIMEOUT_MS."
        )


class RolesMissingError(MigrationRefusedError):
    """The services' roles are not there and the owner cannot make them."""

    def __init__(self, roles: Iterable[str], owner: str) -> None:
        super().__init__(
            f"The roles {', '.join(roles)} are missing and {owner} may not make roles: have an "
            "administrator run what `python -m services migrate --sql` prints, or give "
            f"{owner} CREATEROLE, and run this again."
        )


class RoleUnfitError(MigrationRefusedError):
    """A service's role can do more than a service may, or cannot log in."""

    def __init__(self, role: str, fault: str) -> None:
        super().__init__(
            f"The role {role} {fault}, and a service never migrates: "
            f"have an administrator mend it (ALTER ROLE {role} …) and run this again."
        )


class PasswordNotSetError(MigrationRefusedError):
    """A service's role has another password and the owner may not change it."""

    def __init__(self, role: str, owner: str) -> None:
        super().__init__(
            f"The role {role} does not log in with the password given for it, and {owner} may not "
            f"change it: have an administrator set it (psql: \\password {role}), or give the one "
            "it has."
        )


class PasswordDiffersError(MigrationRefusedError):
    """A service's role is used by somebody else, with another password."""

    def __init__(self, role: str, service: str) -> None:
        super().__init__(
            f"The role {role} exists on this server with another password, which its services may "
            f"be using: set {service.upper()}_DATABASE_URL to the URL of that role; where the role "
            "shall get the password in it, run `python -m services migrate` with it first."
        )


class OwnerNotAllowedError(MigrationRefusedError):
    """The owner lacks a privilege that a migration needs."""

    def __init__(self, owner: str, said: str) -> None:
        super().__init__(
            f"{owner} may not do this ({said}): let DATABASE_URL name the database's owner, or "
            "have an administrator run what `python -m services migrate --sql` prints."
        )

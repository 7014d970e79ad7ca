"""The services' login roles: made once, with as little as a service needs (X2)."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

import psycopg
from psycopg import Connection, errors, sql
from psycopg.conninfo import conninfo_to_dict

from shared.schema.grants import SERVICES, Service, role_of
from shared.schema.refusals import (
    PasswordDiffersError,
    PasswordNotSetError,
    RolesMissingError,
    RoleUnfitError,
)

LOGIN_TIMEOUT_S = 5

_MAY_MAKE_ROLES = """
SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user
"""

_FAULTS = """
SELECT rolname,
    CASE
        WHEN NOT rolcanlogin THEN 'may not log in'
        WHEN rolsuper THEN 'is a superuser'
        WHEN rolcreaterole THEN 'may make roles'
        WHEN rolbypassrls THEN 'bypasses row security'
        ELSE 'is a member of the owner ' || quote_ident(current_user)
    END
FROM pg_roles
WHERE rolname = ANY (%s) AND rolname <> current_user
    AND (NOT rolcanlogin OR rolsuper OR rolcreaterole OR rolbypassrls
        OR pg_has_role(rolname, current_user, 'MEMBER'))
ORDER BY rolname
"""


@dataclass(frozen=True, slots=True)
class Login:
    """Who a URL logs in as; empty where it does not say."""

    user: str
    password: str = field(repr=False)


def login_in(url: str) -> Login:
    """The login that stands in a connection URL."""
    parts = conninfo_to_dict(url)
    return Login(str(parts.get("user") or ""), str(parts.get("password") or ""))


def passwords_in(urls: Mapping[Service, str]) -> dict[Service, str]:
    """The passwords that stand in the services' URLs."""
    logins = {service: login_in(url) for service, url in urls.items()}
    return {service: login.password for service, login in logins.items() if login.password}


def url_as(owner_url: str, service: Service, password: str) -> str:
    """The owner's postgresql:// URL as a service's role."""
    parts = urlsplit(owner_url)
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{role_of(service)}:{quote(password, safe='')}@{place}").geturl()


def missing(connection: Connection) -> tuple[Service, ...]:
    """Services whose role does not exist."""
    names = [role_of(service) for service in SERVICES]
    rows = connection.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", [names])
    present = {name for (name,) in rows}
    return tuple(service for service in SERVICES if role_of(service) not in present)


def faults(connection: Connection) -> list[tuple[str, str]]:
    """Roles that can do what a service must not, each with what is wrong."""
    return list(connection.execute(_FAULTS, [[role_of(service) for service in SERVICES]]))


def ensure(
    connection: Connection,
    owner_url: str,
    passwords: Mapping[Service, str],
    *,
    replace_passwords: bool,
) -> tuple[str, ...]:
    """Makes the roles that are missing and sets given passwords that do not work yet.

    Returns the roles it made. Raises RolesMissingError, RoleUnfitError, PasswordNotSetError, and
    PasswordDiffersError where passwords must not be replaced.
    """
    absent = missing(connection)
    if absent and not _may_make_roles(connection):
        raise RolesMissingError(map(role_of, absent), owner=connection.info.user)
    made = [s for s in absent if _make(connection, role_of(s), passwords.get(s))]
    for role, fault in faults(connection):
        raise RoleUnfitError(role, fault)
    for service in (s for s in SERVICES if s in passwords and s not in made):
        if _logs_in(owner_url, role_of(service), passwords[service]):
            continue
        if not replace_passwords:
            raise PasswordDiffersError(role_of(service), service)
        _set_password(connection, role_of(service), passwords[service])
    return tuple(map(role_of, made))


def script(services: Iterable[Service]) -> list[sql.Composable]:
    """Statements that make these roles, without passwords."""
    return [_creation(role_of(service)) for service in services]


def _may_make_roles(connection: Connection) -> bool:
    row = connection.execute(_MAY_MAKE_ROLES).fetchone()
    return row is not None and bool(row[0])


def _creation(role: str) -> sql.Composed:
    return sql.SQL("CREATE ROLE {} LOGIN NOINHERIT").format(sql.Identifier(role))


def _make(connection: Connection, role: str, password: str | None) -> bool:
    statement = _creation(role)
    if password is not None:
        statement += sql.SQL(" PASSWORD {}").format(_verifier(connection, role, password))
    # Roles belong to the whole server: a migration of another database may have been quicker.
    with suppress(errors.DuplicateObject, errors.UniqueViolation), connection.transaction():
        connection.execute(statement)
        return True
    return False


def _set_password(connection: Connection, role: str, password: str) -> None:
    statement = sql.SQL("ALTER ROLE {} PASSWORD {}").format(
        sql.Identifier(role), _verifier(connection, role, password)
    )
    try:
        connection.execute(statement)
    except errors.InsufficientPrivilege as refused:
        raise PasswordNotSetError(role, owner=connection.info.user) from refused


def _verifier(connection: Connection, role: str, password: str) -> sql.Literal:
    """What the server stores; made here, so that no statement or log of it holds the password."""
    verifier = connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    )
    return sql.Literal(verifier.decode())


def _logs_in(owner_url: str, role: str, password: str) -> bool:
    try:
        login = psycopg.connect(
            owner_url, user=role, password=password, connect_timeout=LOGIN_TIMEOUT_S
        )
    except psycopg.OperationalError:
        return False
    login.close()
    return True

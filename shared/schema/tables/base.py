"""The metadata and the few column shapes that tables repeat."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    MetaData,
    SmallInteger,
    Text,
    text,
)

SCHEMA = "fencepost"

metadata = MetaData(
    schema=SCHEMA,
    naming_convention={
        "pk": "%(table_name)s_pk",
        "fk": "%(table_name)s_%(column_0_name)s_fk",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    },
)


def identity(name: str) -> Column[int]:
    """A 64-bit id that the database counts (X5)."""
    return Column(name, BigInteger, Identity(always=True), primary_key=True)


def instant(name: str, *, nullable: bool = False, now: bool = False) -> Column[Any]:
    """A point in time on the database's clock."""
    default = text("clock_timestamp()") if now else None
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=default)


def tenant() -> Column[str]:
    """Who owns the row (X8)."""
    return Column("tenant", Text, nullable=False)


def one_of(column: str, values: Iterable[StrEnum]) -> CheckConstraint:
    """Holds a text column to declared states."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def lock_only() -> tuple[Column[int], CheckConstraint]:
    """A column that never changes: UPDATE on it lets a role lock the row and alter nothing."""
    column: Column[int] = Column(
        "lock_only", SmallInteger, nullable=False, server_default=text("0")
    )
    return column, CheckConstraint("lock_only = 0", name="lock_only")

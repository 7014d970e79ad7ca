"""Whether this code may run on the schema that the database has (X3)."""

from dataclasses import dataclass

from fencepost.errors import DatabaseUnavailable, SchemaMismatch

from shared.database import Database, Transaction, statement
from shared.schema.revision import SCHEMA_REVISION


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRow:
    """What the schema says of itself."""

    revision: int
    oldest_code: int


UNMIGRATED = SchemaRow(revision=0, oldest_code=0)

_IS_MIGRATED = statement("SELECT to_regclass('fencepost.schema_revision') IS NOT NULL AS found")
_ROW = statement("SELECT revision, oldest_code FROM fencepost.schema_revision")


async def read_schema(tx: Transaction) -> SchemaRow:
    """The one row; UNMIGRATED where there is none."""
    if not await tx.one(_IS_MIGRATED, bool):
        return UNMIGRATED
    return await tx.one(_ROW, SchemaRow) or UNMIGRATED


def mismatch(row: SchemaRow, *, code: int = SCHEMA_REVISION) -> SchemaMismatch | None:
    """Why code of this revision must not run on the schema; None when it may.

    An older schema lacks what the code needs; a newer one says how old code may be.
    """
    if row.revision >= code >= row.oldest_code:
        return None
    return SchemaMismatch(
        expected_revision=code, found_revision=row.revision, oldest_code=row.oldest_code
    )


class SchemaFit:
    """The last answer; `known` is None until the database gave one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.known: SchemaRow | None = None
        self.fits = False
        """Whether the schema was seen, and the code may run on it."""

    @property
    def found_revision(self) -> int:
        """Revision of the schema; 0 while it is not known."""
        return self.known.revision if self.known is not None else 0

    def require(self) -> None:
        """Raises SchemaMismatch; DatabaseUnavailable while the schema was never seen."""
        if self.known is None:
            raise DatabaseUnavailable
        if not self.fits:
            refused = mismatch(self.known)
            assert refused is not None
            raise refused

    async def check(self) -> None:
        """Asks the database; raises SchemaMismatch, DatabaseUnavailable."""
        self.known = await self._database.read(read_schema)
        self.fits = mismatch(self.known) is None
        self.require()

"""Endpoints as a test declares them, on a database, as ingress's own role."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from psycopg import AsyncConnection

from services.ingress.endpoints.model import Declared, ForgeKind, Proof, Route
from services.ingress.endpoints.operations import (
    Admin,
    EndpointOperations,
    PutEndpoint,
    PutOutcome,
    RotateOutcome,
    RotateSecret,
)
from services.ingress.endpoints.snapshot import Endpoints
from services.ingress.settings import IngressSettings
from shared.database import Database
from shared.sealing import Keyring, new_key_line
from tests.rows import Rows

LIMIT_BYTES = 25 * 1024 * 1024
SECRET = "the first secret of all"
NEXT = "the second secret of all"
THIRD = "the third secret of all"

OLD_KEY, NEW_KEY = new_key_line("k1"), new_key_line("k2")

DECLARED = Declared(
    name="main",
    forge=ForgeKind.GITHUB,
    forge_instance="github.com",
    proof=Proof.SIGNATURE,
    routes=(Route(action="review", queue="reviews"),),
)


def declared(**changes: Any) -> Declared:
    """An endpoint of GitHub's, but for these fields."""
    return replace(DECLARED, **changes)


@dataclass(frozen=True)
class Office:
    """Endpoints, as a test uses them; `rows` are read and made as the owner."""

    database: Database
    rows: Rows
    keyring: Keyring

    @property
    def operations(self) -> EndpointOperations:
        """What is tested."""
        return EndpointOperations(self.database, self.keyring, LIMIT_BYTES)

    def endpoints(self, keyring: Keyring | None = None) -> Endpoints:
        """The endpoints of a replica that has read nothing yet."""
        return Endpoints(self.database, keyring or self.keyring, limit_bytes=LIMIT_BYTES)

    async def put(
        self,
        of: Declared = DECLARED,
        *,
        tenant: str = "acme",
        secret: str | None = SECRET,
        enable: bool = False,
        validate_only: bool = False,
    ) -> PutOutcome:
        """Puts an endpoint."""
        return await self.operations.put(
            PutEndpoint(
                admin=admin(tenant),
                declared=of,
                secret=None if secret is None else secret.encode(),
                enable=enable,
                validate_only=validate_only,
            )
        )

    async def rotate(
        self, secret: str, *, name: str = "main", tenant: str = "acme", overlap_ms: int = 60_000
    ) -> RotateOutcome:
        """Gives the endpoint its next secret."""
        return await self.operations.rotate(
            RotateSecret(
                admin=admin(tenant), name=name, secret=secret.encode(), overlap_ms=overlap_ms
            )
        )

    async def audited(self) -> list[tuple[str, str, str]]:
        """Tenant, action and subject of each audit entry, oldest first."""
        entries = await self.rows.all("audit_entries")
        entries.sort(key=lambda entry: int(entry["entry_id"]))
        return [(entry["tenant"], entry["action"], entry["subject"]) for entry in entries]


def admin(tenant: str) -> Admin:
    """Who asks, for a tenant."""
    return Admin(key_id="adminkey", tenant=tenant)


@asynccontextmanager
async def opened(owner_url: str, settings: IngressSettings) -> AsyncIterator[Office]:
    """An office with one sealing key."""
    async with (
        await AsyncConnection.connect(owner_url, autocommit=True) as connection,
        Database.create(settings, application_name="ingress") as database,
    ):
        yield Office(database, Rows(connection), Keyring.parse(OLD_KEY))

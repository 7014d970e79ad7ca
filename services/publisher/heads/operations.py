"""Asking a forge for a head: the connection is opened, the question asked, nothing is written."""

import asyncio
from dataclasses import dataclass

from fencepost.errors import ForgeUnavailable, ResourceNotFound

from services.publisher.connections.open_operations import Connections
from services.publisher.forges.connect import Forges
from services.publisher.forges.interface import Heads
from services.publisher.heads.model import Asked, Gone, Head, HeadAnswer, Unknown
from services.publisher.model import ForgeKind
from shared.database import Database

RETRY_AFTER_MS = 5000


@dataclass(frozen=True, kw_only=True)
class ResolveHead:
    """A change request of a tenant's forge instance."""

    tenant: str
    forge_instance: str
    repo_id: int
    number: int


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """What the forge has now."""

    forge: ForgeKind
    head: Head


class Resolving:
    """Resolves heads over the tenants' connections."""

    def __init__(
        self, database: Database, forges: Forges, connections: Connections, *, time_limit_ms: int
    ) -> None:
        self._database = database
        self._forges = forges
        self._connections = connections
        self._time_limit_ms = time_limit_ms

    async def resolve(self, command: ResolveHead) -> Resolved:
        """Keeps I7, K1, X8; no lock and no transaction is held while the forge is asked.

        Raises ResourceNotFound for a change request that is not there, ForgeUnavailable when the
        forge cannot say, and what the connection raises that does not open.
        """
        tenant, instance = command.tenant, command.forge_instance
        access = await self._database.read(
            lambda tx: self._connections.open(tx, tenant=tenant, forge_instance=instance)
        )
        asked = Asked(repo_id=command.repo_id, number=command.number)
        answer = await self._in_time(self._forges.heads(access), asked)
        match answer:
            case Head():
                return Resolved(forge=access.forge, head=answer)
            case Gone(why=why):
                name = f"{instance}/{command.repo_id}#{command.number}"
                raise ResourceNotFound(kind="change request", name=name, message=_told(why))
            case Unknown(why=why, retry_after_ms=retry_after_ms):
                raise ForgeUnavailable(why=why, retry_after_ms=retry_after_ms or RETRY_AFTER_MS)

    async def _in_time(self, heads: Heads, asked: Asked) -> HeadAnswer:
        """Every try and redirect together: the caller hears that nobody knows, before it leaves."""
        try:
            async with asyncio.timeout(self._time_limit_ms / 1000):
                return await heads.find_head(asked)
        except TimeoutError:
            return Unknown(f"it took more than {self._time_limit_ms} ms")


def _told(why: str) -> str:
    return f"There is no such change request: {why}."

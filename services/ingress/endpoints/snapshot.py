"""Every endpoint that this ingress serves, as of a moment ago, secrets opened.

Each replica reads all of them anew every two seconds, and at once where one is asked for that it
does not know; so what was declared, rotated or disabled holds everywhere within five seconds.
While the database is away the last reading proves who sent, and nothing can be taken in.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from fencepost.errors import (
    DatabaseUnavailable,
    Refusal,
    ResourceNotFound,
    SealingKeyUnknown,
    SecretTampered,
)

from services.ingress.endpoints import operations, secret_operations, secrets_store, store
from services.ingress.endpoints.model import Endpoint
from services.ingress.endpoints.secrets_store import SecretRow
from services.ingress.endpoints.store import EndpointRow
from shared.database import Database, Transaction
from shared.sealing import Keyring, Sealed
from shared.ticking import Ticker

REFRESH_PERIOD_MS: Final = 2_000
MISS_PAUSE_S: Final = 0.25
"""Whoever asks for endpoints that are not there costs the database four readings a second."""

Name = tuple[str, str]
"""Tenant and name, or forge and name."""

Rows = tuple[list[EndpointRow], list[SecretRow]]
Opened = dict[tuple[Name, int, Sealed], bytes]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One look at the tables; `owners` has the tenant that first took a name of a forge."""

    read_at_s: float
    served: Mapping[Name, Endpoint]
    owners: Mapping[Name, str]
    faults: Mapping[Name, Refusal]

    def of_forge(self, forge: str, name: str | None, tenant: str | None) -> Endpoint | None:
        """The endpoint that a webhook names; without a name the forge's only one."""
        if name is None:
            found = [each for each in self.served.values() if each.forge == forge]
            return found[0] if len(found) == 1 else None
        endpoint = self.served.get((tenant or self.owners.get((forge, name), ""), name))
        return endpoint if endpoint is not None and endpoint.forge == forge else None


class Endpoints:
    """The endpoints of one replica; `limit_bytes` is the service's own for bodies."""

    def __init__(self, database: Database, keyring: Keyring, *, limit_bytes: int) -> None:
        self._database = database
        self._keyring = keyring
        self._limit_bytes = limit_bytes
        self._reading: Reading | None = None
        self._flight: asyncio.Task[Reading] | None = None
        self._opened: Opened = {}
        self.ticker = Ticker("endpoints", period_ms=REFRESH_PERIOD_MS, tick=self.refresh)

    async def refresh(self) -> None:
        """Reads all anew, from now on; raises DatabaseUnavailable, and the last reading stays."""
        if self._flight is not None:
            await asyncio.wait({self._flight})
        await self._read_together()

    async def catch_up(self) -> None:
        """Reads anew what was just changed here; should the database be gone, a tick does it."""
        try:
            await self.refresh()
        except DatabaseUnavailable as away:
            log.warning("a change holds here from the next tick on", why=str(away))

    async def of_forge(self, forge: str, name: str | None, tenant: str | None = None) -> Endpoint:
        """The endpoint that a webhook names; without a tenant the one that first took the name.

        Raises ResourceNotFound, DatabaseUnavailable; SealingKeyUnknown or SecretTampered where
        none of its secrets opens, so that nobody can be believed.
        """
        found = await self._look(lambda reading: reading.of_forge(forge, name, tenant))
        if found is None:
            raise ResourceNotFound(kind="endpoint", name=forge if name is None else name)
        endpoint, reading = found
        if not endpoint.secrets:
            raise reading.faults[endpoint.tenant, endpoint.name]
        return endpoint

    async def of_tenant(self, tenant: str, name: str) -> Endpoint:
        """The tenant's endpoint of this name; another tenant's is ResourceNotFound (X8)."""
        found = await self._look(lambda reading: reading.served.get((tenant, name)))
        if found is None:
            raise ResourceNotFound(kind="endpoint", name=name)
        return found[0]

    def webhook_path(self, tenant: str, forge: str, name: str) -> str:
        """Where its forge must post to; the tenant is named where another had the name first."""
        owners = {} if self._reading is None else self._reading.owners
        of_tenant = "" if owners.get((forge, name)) == tenant else f"{tenant}/"
        return f"/webhooks/{forge}/{of_tenant}{name}"

    async def _look(
        self, find: Callable[[Reading], Endpoint | None]
    ) -> tuple[Endpoint, Reading] | None:
        reading = self._reading
        if reading is None or (found := find(reading)) is None:
            reading = await self._after_a_miss()
            found = find(reading)
        return None if found is None else (found, reading)

    async def _after_a_miss(self) -> Reading:
        """A reading that is younger than the pause."""
        reading = self._reading
        if reading is not None and time.monotonic() - reading.read_at_s < MISS_PAUSE_S:
            return reading
        return await self._read_together()

    async def _read_together(self) -> Reading:
        """One reading for all who ask while it is under way; it outlives who asked first."""
        if self._flight is None:
            self._flight = asyncio.create_task(self._read())
            self._flight.add_done_callback(self._landed)
        return await asyncio.shield(self._flight)

    def _landed(self, flight: "asyncio.Task[Reading]") -> None:
        self._flight = None
        if not flight.cancelled() and flight.exception() is None:
            self._reading = flight.result()

    async def _read(self) -> Reading:
        return self._made_of(*await self._database.read(_rows))

    def _made_of(self, endpoints: Iterable[EndpointRow], secrets: Iterable[SecretRow]) -> Reading:
        opened, faults = self._unsealed(secrets)
        known = {} if self._reading is None else self._reading.faults
        for name in faults.keys() - known.keys():
            log.error(
                "a secret does not open", tenant=name[0], endpoint=name[1], why=str(faults[name])
            )
        self._opened = opened
        live: dict[Name, list[bytes]] = {}
        for (name, _, _), secret in opened.items():
            live.setdefault(name, []).append(secret)
        served: dict[Name, Endpoint] = {}
        owners: dict[Name, str] = {}
        for row in endpoints:
            owners.setdefault((row.forge, row.name), row.tenant)
            if row.disabled_at is None:
                name = row.tenant, row.name
                served[name] = self._served(row, tuple(live.get(name, ())))
        return Reading(read_at_s=time.monotonic(), served=served, owners=owners, faults=faults)

    def _unsealed(self, secrets: Iterable[SecretRow]) -> tuple[Opened, dict[Name, Refusal]]:
        """Each secret, opened once for as long as it stays as it is."""
        opened: Opened = {}
        faults: dict[Name, Refusal] = {}
        for row in secrets:
            name = row.tenant, row.endpoint
            key = name, row.version, row.sealed
            try:
                opened[key] = self._opened.get(key) or secret_operations.unseal(self._keyring, row)
            except (SealingKeyUnknown, SecretTampered) as fault:
                faults[name] = fault
        return opened, faults

    def _served(self, row: EndpointRow, secrets: tuple[bytes, ...]) -> Endpoint:
        declared = operations.declared_of(row)
        limit_bytes = min(declared.body_limit_bytes or self._limit_bytes, self._limit_bytes)
        return Endpoint(
            **{**vars(declared), "body_limit_bytes": limit_bytes},
            tenant=row.tenant,
            secrets=secrets,
        )


async def _rows(tx: Transaction) -> Rows:
    """Endpoints first: a secret of one that was made between the two is left out with it."""
    return await store.all_endpoints(tx), await secrets_store.live_secrets(tx)

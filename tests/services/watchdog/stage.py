"""A served watchdog with its database, and clients with keys of any tenant and scope."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fencepost.channel import ChannelSettings, connect
from fencepost.watchdog.v1.access_pb2_grpc import AccessServiceStub
from fencepost.watchdog.v1.watchdog_pb2_grpc import WatchdogServiceStub

from tests.rows import Rows
from tests.services.watchdog.made import stored_key
from tests.services.watchdog.served import Served

ADMIN_SCOPES = ("status_read", "keys_admin", "operate", "work")


@dataclass
class Place:
    """A served watchdog and its database."""

    owner_url: str
    watchdog: Served
    tenants: Iterator[str] = field(default_factory=lambda: (f"tenant-{n}" for n in range(1000)))


@dataclass(frozen=True)
class Client:
    """One key's view of the watchdog."""

    access: Any
    watchdog: Any
    key_id: str
    credential: str


@dataclass(frozen=True)
class Stage:
    """The process, and rows in its database."""

    watchdog: Served
    rows: Rows

    @asynccontextmanager
    async def client(
        self,
        tenant: str | None = "acme",
        *,
        scopes: Sequence[str] = ADMIN_SCOPES,
        named: str | None = None,
        credential: str | None = None,
        retries: bool = True,
    ) -> AsyncIterator[Client]:
        """A client with a new key of this tenant, or with a given credential."""
        key_id = ""
        if credential is None:
            made, row = await stored_key(self.rows, tenant, scopes=list(scopes))
            credential, key_id = made.text, row["key_id"]
        settings = ChannelSettings(
            target=self.watchdog.grpc, api_key=credential, tenant=named, retries=retries
        )
        async with connect(settings) as channel:
            yield Client(
                AccessServiceStub(channel), WatchdogServiceStub(channel), key_id, credential
            )

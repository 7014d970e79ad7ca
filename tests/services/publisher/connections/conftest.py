"""Connections on a real database, as the publisher's own role."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import SecretStr

from services.publisher.connections.open_operations import Connections
from services.publisher.connections.operations import ConnectionOperations, Put, PutConnection
from services.publisher.forges.access import Access
from services.publisher.forges.connect import configured_access
from services.publisher.model import ForgeKind
from services.publisher.settings import PublisherSettings
from shared.database import Database
from shared.sealing import new_key_line

TOKEN = "ghp_canary-of-this-test"
KEY_1, KEY_2 = new_key_line("k1"), new_key_line("k2")
GITLAB = PutConnection(
    tenant="acme",
    key_id="admin",
    forge=ForgeKind.GITLAB,
    forge_instance="gitlab.test",
    base_url="https://gitlab.test/api/v4",
    token=TOKEN,
    enable=False,
)


@dataclass(frozen=True)
class Desk:
    """A publisher's way to keep and open connections, with this keyring."""

    database: Database
    settings: PublisherSettings

    def with_keys(self, *lines: str) -> "Desk":
        """The same after a restart with another keyring."""
        keys = SecretStr("\n".join(lines)) if lines else None
        return replace(self, settings=self.settings.model_copy(update={"sealing_keys": keys}))

    @property
    def connections(self) -> Connections:
        """What opens them."""
        return Connections(self.settings.keyring, configured_access(self.settings))

    @property
    def operations(self) -> ConnectionOperations:
        """What keeps them."""
        return ConnectionOperations(self.database, self.connections, self.settings)

    async def put(self, **changes: Any) -> Put:
        """Puts the connection to GitLab with these changes."""
        return await self.operations.put(replace(GITLAB, **changes))

    async def opened(self, tenant: str = "acme", forge_instance: str = "gitlab.test") -> Access:
        """The way in as it would be used."""
        return await self.database.read(
            lambda tx: self.connections.open(tx, tenant=tenant, forge_instance=forge_instance)
        )


@pytest.fixture
def desk(database: Database, settings: PublisherSettings) -> Desk:
    """A desk with the key k1."""
    return Desk(database, settings).with_keys(KEY_1)

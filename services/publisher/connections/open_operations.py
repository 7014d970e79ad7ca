"""Opens a tenant's way into a forge for one call, and keeps nothing of it (K1)."""

from fencepost.errors import ConnectionDisabled, ConnectionMissing, SealingKeyUnknown

from services.publisher.connections import store
from services.publisher.connections.store import ConnectionRow
from services.publisher.forges.access import Access
from services.publisher.model import ForgeKind
from shared.database import Transaction
from shared.sealing import Keyring, SealedFor

NO_KEYRING = (
    "The publisher has no sealing keys: set PUBLISHER_SEALING_KEYS or PUBLISHER_SEALING_KEYS_FILE."
)


def sealed_for(
    *, tenant: str, forge: str, forge_instance: str, base_url: str, version: int
) -> SealedFor:
    """What a token is bound to: its address too, so that a changed one gets no token."""
    return SealedFor(
        purpose="connection",
        tenant=tenant,
        owner=f"{forge} {forge_instance} at {base_url}",
        version=version,
    )


def bound_to(row: ConnectionRow) -> SealedFor:
    """What the token in a row must be bound to."""
    return sealed_for(
        tenant=row.tenant,
        forge=row.forge,
        forge_instance=row.forge_instance,
        base_url=row.base_url,
        version=row.version,
    )


class Connections:
    """Every tenant's connections, and the one that the settings name for all tenants."""

    def __init__(self, keyring: Keyring | None, configured: Access) -> None:
        self._keyring = keyring
        self._configured = configured

    @property
    def keyring(self) -> Keyring:
        """Raises SealingKeyUnknown where none is set."""
        if self._keyring is None:
            raise SealingKeyUnknown(key_id="", message=NO_KEYRING)
        return self._keyring

    async def open(self, tx: Transaction, *, tenant: str, forge_instance: str) -> Access:
        """The tenant's access to this instance, its own connection before the settings'.

        Raises ConnectionMissing, ConnectionDisabled, SealingKeyUnknown, SecretTampered. Keeps K1,
        X8.
        """
        row = await store.find_connection(tx, tenant=tenant, forge_instance=forge_instance)
        if row is None and self._configured.instance == forge_instance and self._configured.token:
            return self._configured
        if row is None:
            raise ConnectionMissing(tenant=tenant, forge_instance=forge_instance)
        if row.disabled_at is not None:
            raise ConnectionDisabled(tenant=tenant, forge_instance=forge_instance)
        return Access(
            forge=ForgeKind(row.forge),
            instance=row.forge_instance,
            base_url=row.base_url,
            token=self.token_of(row),
        )

    def token_of(self, row: ConnectionRow) -> str:
        """What is sealed in the row; raises SealingKeyUnknown, SecretTampered."""
        return self.keyring.unseal(row.sealed, bound_to(row)).decode()

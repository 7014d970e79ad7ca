"""Keeps the sealed secrets in order: ended ones go, those under an older key come under the new."""

import structlog

from services.ingress.endpoints import secret_operations
from services.ingress.endpoints.secret_operations import Position
from services.ingress.metrics import SEALED_SECRETS
from shared.database import Database
from shared.sealing import Keyring
from shared.ticking import Ticker

PERIOD_MS = 60_000

log = structlog.get_logger(__name__)


class SealingLoop:
    """The duty of one replica; several may do it at once. Keeps K1."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._keyring = keyring
        self.ticker = Ticker("sealing", period_ms=PERIOD_MS, tick=self.tick)

    async def tick(self) -> None:
        """Once through all secrets; then the gauge tells which keys are still used."""
        await self._database.run(secret_operations.forget_ended)
        position: Position | None = secret_operations.FIRST
        while position is not None:
            position = await self._rewrap_from(position)
        uses = await self._database.read(secret_operations.key_uses)
        SEALED_SECRETS.clear()
        for use in uses:
            SEALED_SECRETS.labels(use.sealing_key_id).set(use.secrets)

    async def _rewrap_from(self, position: Position) -> Position | None:
        step = await self._database.run(
            lambda tx: secret_operations.rewrap(tx, self._keyring, position)
        )
        for tampered in step.tampered:
            log.error("a secret stays under an older key", why=str(tampered))
        return step.next_position

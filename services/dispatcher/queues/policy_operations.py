"""The rules that work goes by: those of its queue, or the settings where it is not declared."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.dispatcher.dispatch.rules import attempts_allowed
from services.dispatcher.queues import store
from services.dispatcher.queues.model import Declared
from services.dispatcher.queues.rules import retry_delay_ms
from services.dispatcher.settings import DispatcherSettings
from shared.database import Transaction


@dataclass(frozen=True)
class QueueRules:
    """What some of a tenant's queues allow."""

    declared: Mapping[str, Declared]
    settings: DispatcherSettings

    def allowed(self, queue: str) -> int:
        """Attempts of an intent on this queue, the first included (Q2)."""
        declared, settings = self.declared.get(queue), self.settings
        return attempts_allowed(
            retries_max=settings.retries_max if declared is None else declared.retries_max,
            attempts_max=settings.attempts_max,
        )

    def delay_ms(self, queue: str, *, attempts: int) -> int:
        """How long an intent waits after so many attempts."""
        declared = self.declared.get(queue)
        if declared is None:
            return self.settings.retry_delay_ms
        return retry_delay_ms(declared, attempts=attempts, draw=random.random())


async def rules_of(
    tx: Transaction, *, tenant: str, queues: Iterable[str], settings: DispatcherSettings
) -> QueueRules:
    """The rules of these queues as they are now."""
    found = await store.rules_of(tx, tenant=tenant, names=queues)
    return QueueRules({each.name: each for each in found}, settings)

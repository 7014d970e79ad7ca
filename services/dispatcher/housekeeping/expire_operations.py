"""Duty: a lease past its time is freed and its intent put back, or buried when out of attempts."""

from collections.abc import Sequence
from itertools import groupby

from services.dispatcher.dispatch import outcomes_store, ready_store
from services.dispatcher.dispatch.apart_operations import Patience, Way, apart
from services.dispatcher.dispatch.outcomes_store import Ended, IntentEnd
from services.dispatcher.dispatch.ready_store import ReadyRow
from services.dispatcher.dispatch.wakeups import Lane, Wakeups
from services.dispatcher.housekeeping import store
from services.dispatcher.housekeeping.store import Overdue
from services.dispatcher.queues.policy_operations import rules_of
from services.dispatcher.settings import DispatcherSettings
from shared.database import Database, Transaction
from shared.schema.states import DispatchOutcome, IntentStatus, LeaseState

RAN_OUT = "its lease ran out"


class Expirer:
    """Puts the intents of overdue leases back, so that neither they nor their holders are lost."""

    def __init__(self, database: Database, wakeups: Wakeups, settings: DispatcherSettings) -> None:
        self._patience = Patience(database)
        self._wakeups = wakeups
        self._page = settings.duty_batch_max
        self._settings = settings

    async def tick(self) -> bool:
        """One page of overdue leases, in one transaction; True when there may be more. Keeps L2.

        One that needs a row that stays locked is left to a later tick (X7).
        """
        expired, filled = await self._patience.run(self._expire_page)
        self._wakeups.wake(filled)
        return expired == self._page

    async def _expire_page(self, tx: Transaction, way: Way) -> tuple[int, set[Lane]]:
        """How many leases ended, and where there is work now."""
        filled: set[Lane] = set()

        async def expire(leases: Sequence[Overdue]) -> list[Overdue]:
            by_tenant = sorted(leases, key=lambda lease: lease.tenant)
            for tenant, theirs in groupby(by_tenant, key=lambda lease: lease.tenant):
                queues = await self._expire(tx, tenant, list(theirs))
                filled.update(Lane(tenant, queue) for queue in queues)
            return list(leases)

        async def leave(_: Overdue) -> list[Overdue]:
            return []

        overdue = await store.lock_overdue(tx, limit=self._page)
        return len(await apart(tx, overdue, expire, leave, way=way)), filled

    async def _expire(self, tx: Transaction, tenant: str, leases: Sequence[Overdue]) -> list[str]:
        """Ends these leases; returns the queues of intents that became ready."""
        queues = [lease.queue for lease in leases]
        rules = await rules_of(tx, tenant=tenant, queues=queues, settings=self._settings)
        back = [lease for lease in leases if lease.attempts < rules.allowed(lease.queue)]
        spent = [lease for lease in leases if lease.attempts >= rules.allowed(lease.queue)]
        ended = [_ended(lease, LeaseState.FREE) for lease in back]
        ended += [_ended(lease, LeaseState.DEAD) for lease in spent]
        await outcomes_store.record_dispatches(tx, tenant=tenant, ended=ended)
        await outcomes_store.end_leases(tx, tenant=tenant, ended=ended)
        filled = await outcomes_store.release_waiters(
            tx, tenant=tenant, keys=[(lease.key, lease.action) for lease in leases]
        )
        if back:
            await ready_store.line_up(tx, tenant=tenant, rows=[_ready(lease) for lease in back])
        if spent:
            ends = [_buried(lease, rules.allowed(lease.queue)) for lease in spent]
            await outcomes_store.settle_intents(tx, tenant=tenant, ends=ends)
        return [*filled, *(lease.queue for lease in back)]


def _buried(lease: Overdue, allowed: int) -> IntentEnd:
    return IntentEnd(
        intent_id=lease.intent_id,
        status=IntentStatus.DEAD,
        attempts=lease.attempts,
        settled_by=None,
        reason=f"{RAN_OUT} {lease.attempts} times, and {allowed} attempts are allowed",
    )


def _ready(lease: Overdue) -> ReadyRow:
    return ReadyRow(
        intent_id=lease.intent_id,
        queue=lease.queue,
        priority=lease.priority,
        key=lease.key,
        action=lease.action,
        attempts=lease.attempts,
    )


def _ended(lease: Overdue, state: LeaseState) -> Ended:
    return Ended(
        key=lease.key,
        action=lease.action,
        epoch=lease.epoch,
        state=state,
        outcome=DispatchOutcome.DISPLACED,
        disposition=None,
        outcome_sha256=b"",
        reason=RAN_OUT,
    )

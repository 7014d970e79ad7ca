"""What a dispatcher does for workers: grant, renew, settle, and keep their sessions.

Each is one transaction over a list of commands; `grant_operations` and `settle_operations` hold
the two long ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.errors import (
    FencepostError,
    LeaseLost,
    RequestIdReused,
    ResourceNotFound,
)

from services.dispatcher.dispatch import (
    grant_operations,
    outcomes_store,
    sessions_store,
    settle_operations,
)
from services.dispatcher.dispatch.grant_operations import Ask, Grant
from services.dispatcher.dispatch.outcomes_store import Fence, Held
from services.dispatcher.dispatch.sessions_store import NewSession
from services.dispatcher.dispatch.settle_operations import SettleAnswer, Settlement
from services.dispatcher.settings import DispatcherSettings
from shared.database import Database, Transaction


@dataclass(frozen=True)
class RenewAnswer:
    """A renewed lease's time, or why it was not renewed."""

    lease_ms: int
    refusal: FencepostError | None


class DispatchOperations:
    """Grants, renewals, outcomes and sessions on one database."""

    def __init__(self, database: Database, settings: DispatcherSettings) -> None:
        self._database = database
        self._settings = settings

    async def open_session(self, session: NewSession, *, resume: bool) -> list[Grant]:
        """Opens or takes up a session; returns what it holds still.

        Raises ResourceNotFound when there is nothing to resume, RequestIdReused when a new
        session's id is taken.
        """

        async def opened(tx: Transaction) -> list[Grant]:
            if resume:
                if not await sessions_store.resume_session(tx, session):
                    raise ResourceNotFound(kind="session", name=session.session_id)
            elif not await sessions_store.open_session(tx, session):
                raise RequestIdReused(request_id=session.session_id)
            return await grant_operations.held_by_session(
                tx,
                tenant=session.tenant,
                session_id=session.session_id,
                settings=self._settings,
            )

        return await self._database.run(opened)

    async def heard(self, session: NewSession, *, draining: bool) -> bool:
        """Records a sign of life; False when the session ended or another replica has it."""
        return await self._database.run(
            lambda tx: sessions_store.heard(
                tx,
                tenant=session.tenant,
                session_id=session.session_id,
                replica=session.replica,
                draining=draining,
            )
        )

    async def close_session(self, session: NewSession, *, by_worker: bool) -> None:
        """Ends a session that its worker closed; detaches one that lost its stream."""
        close = sessions_store.end if by_worker else sessions_store.detach
        await self._database.run(
            lambda tx: close(
                tx,
                tenant=session.tenant,
                session_id=session.session_id,
                replica=session.replica,
            )
        )

    async def grant(self, ask: Ask, *, grant_id: str) -> list[Grant]:
        """Leases to at most `limit` runnable intents, in order; atomic. Keeps L1, L2, L5.

        What may not run is settled as what it is, or put back without an attempt. After
        DatabaseUnavailable call `granted` with the same id before anything else (X6).
        """
        return await self._database.run(
            lambda tx: grant_operations.grant(tx, ask, grant_id, self._settings)
        )

    async def granted(self, ask: Ask, *, grant_id: str) -> list[Grant]:
        """What a grant whose answer was lost did: its leases, or nothing."""
        return await self._database.read(
            lambda tx: grant_operations.found_again(tx, ask, grant_id, self._settings)
        )

    async def renew(self, tenant: str, fences: Sequence[Fence]) -> list[RenewAnswer]:
        """Renews each lease that is still held, each judged anew; atomic. Keeps L3, L4."""

        async def renewed(tx: Transaction) -> dict[tuple[str, str], Held]:
            held = await outcomes_store.lock_held(tx, tenant=tenant, fences=fences)
            if held:
                await outcomes_store.renew(tx, tenant=tenant, held=list(held.values()))
            return held

        held = await self._database.run(renewed)
        return [_renew_answer(fence, held.get((fence.key, fence.action))) for fence in fences]

    async def settle(self, tenant: str, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
        """Records outcomes; atomic. A stored one is returned before the fence is looked at (Q8).

        A lost lease (L3), a missing final flush (C4) or another stored outcome is that item's
        refusal and changes nothing of it.
        """
        return await self._database.run(
            lambda tx: settle_operations.settle(tx, tenant, settlements, self._settings)
        )

    async def fetch_payload(self, tenant: str, fence: Fence) -> bytes:
        """The payload of a held intent; raises LeaseLost when it is not held. Keeps L3."""

        async def fetched(tx: Transaction) -> bytes:
            if not await outcomes_store.lock_held(tx, tenant=tenant, fences=[fence]):
                raise _lease_lost(fence)
            found = await outcomes_store.payload(tx, tenant=tenant, intent_id=fence.intent_id)
            if found is None:
                raise ResourceNotFound(kind="payload of intent", name=str(fence.intent_id))
            return found

        return await self._database.run(fetched)


def _renew_answer(fence: Fence, held: Held | None) -> RenewAnswer:
    if held is None or held.epoch != fence.epoch or held.holder != fence.holder:
        return RenewAnswer(0, _lease_lost(fence))
    return RenewAnswer(held.lease_ms, None)


def _lease_lost(fence: Fence) -> LeaseLost:
    return LeaseLost(key=fence.key, action=fence.action, epoch=fence.epoch)

"""What a dispatcher does for workers: grant, renew, settle, and keep their sessions.

Each is one transaction over a list of commands; `grant_operations` and `settle_operations` hold
the two long ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from fencepost.errors import FencepostError, RequestIdReused, ResourceNotFound

from services.dispatcher.dispatch import (
    fences_store,
    grant_operations,
    leases_store,
    sessions_store,
    settle_operations,
)
from services.dispatcher.dispatch.apart_operations import Patience, Way, apart
from services.dispatcher.dispatch.fences_store import Fence, Held
from services.dispatcher.dispatch.grant_operations import Ask, Grant
from services.dispatcher.dispatch.sessions_store import Granted, NewSession, Stream
from services.dispatcher.dispatch.settle_operations import SettleAnswer, Settlement
from services.dispatcher.dispatch.wakeups import Lane, Wakeups
from services.dispatcher.settings import DispatcherSettings
from shared.database import Database, RowLocked, Transaction


@dataclass(frozen=True)
class RenewAnswer:
    """A renewed lease's time, or why it was not renewed."""

    lease_ms: int
    refusal: FencepostError | None


class DispatchOperations:
    """Grants, renewals, outcomes and sessions on one database."""

    def __init__(self, database: Database, wakeups: Wakeups, settings: DispatcherSettings) -> None:
        self._database = database
        self._patience = Patience(database)
        self._wakeups = wakeups
        self._settings = settings

    async def open_session(self, session: NewSession, *, resume: bool) -> list[Grant]:
        """Opens or takes up a session; returns what it holds still, grants under way included.

        Raises ResourceNotFound when there is nothing to resume, RequestIdReused when a new
        session's id is taken.
        """
        stream = stream_of(session)

        async def opened(tx: Transaction) -> list[Grant]:
            if resume:
                if not await sessions_store.resume_session(tx, session):
                    raise ResourceNotFound(kind="session", name=session.session_id)
            elif not await sessions_store.open_session(tx, session):
                raise RequestIdReused(request_id=session.session_id)
            return await grant_operations.held_by_session(tx, stream, self._settings)

        return await self._database.run(opened)

    async def heard(self, stream: Stream, *, draining: bool) -> None:
        """Records a sign of life; raises ResourceNotFound when the session is no longer here."""
        if not await self._database.run(
            lambda tx: sessions_store.heard(tx, stream, draining=draining)
        ):
            raise ResourceNotFound(kind="session on this stream", name=stream.session_id)

    async def end_session(self, stream: Stream) -> None:
        """Ends a session that its worker closed; what it holds still keeps a grace alone.

        A lease whose row stays locked keeps its time (X7).
        """
        await self._patience.run(lambda tx, way: self._end_session(tx, stream, way))

    async def _end_session(self, tx: Transaction, stream: Stream, way: Way) -> None:
        tenant, session_id = stream.tenant, stream.session_id

        async def shorten(leases: Sequence[Granted]) -> list[int]:
            keys = [(lease.key, lease.action) for lease in leases]
            await leases_store.lock_leases(tx, tenant=tenant, keys=keys)
            shortened = await sessions_store.shorten_leases(
                tx,
                tenant=tenant,
                session_id=session_id,
                keys=keys,
                grace_ms=self._settings.session_grace_ms,
            )
            return [shortened]

        async def leave(_: Granted) -> list[int]:
            return []

        if await sessions_store.end(tx, stream):
            held = await sessions_store.by_session(tx, tenant=tenant, session_id=session_id)
            await apart(tx, held, shorten, leave, way=way)

    async def detach_session(self, stream: Stream) -> None:
        """Notes that the stream was lost; the session may be taken up, its leases stay."""
        await self._database.run(lambda tx: sessions_store.detach(tx, stream))

    async def grant(self, ask: Ask, *, grant_id: str) -> list[Grant]:
        """Leases to at most `limit` runnable intents, in order. Keeps L1, L2, L5.

        What may not run is settled as what it is, or put back without an attempt, as is what needs
        a row that stays locked (X7), and the next is looked at: nothing granted means that nothing
        is there. Each round is one transaction.
        Raises ResourceNotFound when the session is no longer on this stream. After
        DatabaseUnavailable of unknown outcome call `granted` with the same id first (X6).
        """
        while True:
            done = await self._patience.run(
                lambda tx, way: grant_operations.grant(tx, ask, grant_id, self._settings, way=way)
            )
            if done.grants or not done.found_any:
                return done.grants

    async def granted(self, stream: Stream, *, grant_id: str) -> list[Grant]:
        """What a grant whose answer was lost did: its leases, or nothing (X6)."""
        return await self._database.run(
            lambda tx: grant_operations.found_again(tx, stream, grant_id, self._settings)
        )

    async def renew(self, tenant: str, fences: Sequence[Fence]) -> list[RenewAnswer]:
        """Renews each lease that is still held, each judged anew; atomic. Keeps L3, L4.

        One that stays locked is refused alone, to be asked for again (X7).
        """

        async def refuse(_: Fence) -> list[RenewAnswer]:
            return [RenewAnswer(0, RowLocked())]

        return await self._patience.run(
            lambda tx, way: apart(tx, fences, partial(_renew, tx, tenant), refuse, way=way)
        )

    async def settle(self, tenant: str, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
        """Records outcomes; atomic. A stored one is returned before the fence is looked at (Q8).

        A lost lease (L3), a missing final flush (C4), another stored outcome or a row that stays
        locked (X7) is that item's refusal and changes nothing of it. Sessions hear of work that
        had waited for what ended.
        """
        settled = await self._patience.run(
            lambda tx, way: settle_operations.settle(
                tx, tenant, settlements, self._settings, way=way
            )
        )
        self._wakeups.wake(Lane(tenant, queue) for queue in settled.filled_queues)
        return settled.answers

    async def fetch_payload(self, tenant: str, fence: Fence) -> bytes:
        """The payload of a held intent; raises LeaseLost when it is not held. Keeps L3."""

        async def fetched(tx: Transaction) -> bytes:
            if not await fences_store.lock_held(tx, tenant=tenant, fences=[fence]):
                raise fence.lost()
            found = await fences_store.payload(tx, tenant=tenant, intent_id=fence.intent_id)
            if found is None:
                raise ResourceNotFound(kind="payload of intent", name=str(fence.intent_id))
            return found

        return await self._database.run(fetched)


def stream_of(session: NewSession) -> Stream:
    """The stream on which this was said."""
    return Stream(tenant=session.tenant, session_id=session.session_id, place=session.place)


async def _renew(tx: Transaction, tenant: str, fences: Sequence[Fence]) -> list[RenewAnswer]:
    held = await fences_store.lock_held(tx, tenant=tenant, fences=fences)
    if held:
        await fences_store.renew(tx, tenant=tenant, held=list(held.values()))
    return [_renew_answer(fence, held.get((fence.key, fence.action))) for fence in fences]


def _renew_answer(fence: Fence, held: Held | None) -> RenewAnswer:
    if held is None or not held.admits(fence):
        return RenewAnswer(0, fence.lost())
    return RenewAnswer(held.lease_ms, None)

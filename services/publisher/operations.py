"""The path of one publication: claim it, send it once, record what came of it.

From the claim on, the work runs in a task that no caller can cancel: one who goes away loses the
answer and nothing else, and a stopping process waits for it. Nothing here is ever resent: an
attempt that a crash left running is in doubt (P6).
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog
from fencepost.errors import (
    DatabaseUnavailable,
    FencepostError,
    Overloaded,
    PublicationRefused,
    ReconciliationRequired,
)
from opentelemetry.trace import Span, Tracer

from services.publisher import metrics, spans
from services.publisher.connections.open_operations import Connections
from services.publisher.forges.connect import Forges
from services.publisher.forges.interface import Forge
from services.publisher.ledger import operations as ledger
from services.publisher.ledger.operations import Claim
from services.publisher.model import (
    REVIEW,
    Draft,
    Outcome,
    Place,
    Publication,
    Published,
    PublishReview,
    Refused,
    Slot,
    Succeeded,
    Uncertain,
)
from shared.database import Database, Transaction
from shared.schema.states import AttemptStatus
from shared.telemetry import current_traceparent

T = TypeVar("T")

FIRST_PAUSE_MS = 50
LONGEST_PAUSE_MS = 2000

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Ready:
    """A claimed attempt with the forge that it is sent to, opened for this one call (K1)."""

    claim: Claim
    forge: Forge


class Publishing:
    """Publishes through the ledger, to the forges that tenants are connected to."""

    def __init__(
        self,
        database: Database,
        forges: Forges,
        connections: Connections,
        tracer: Tracer,
        *,
        record_window_ms: int,
    ) -> None:
        self._database = database
        self._forges = forges
        self._connections = connections
        self._tracer = tracer
        self._record_window_ms = record_window_ms
        self._under_way: set[asyncio.Task[Published]] = set()

    async def publish_review(self, command: PublishReview) -> Published:
        """Posts the review once, or returns what had been posted. Keeps P2b, P3, P4, P5.

        Raises what the claim refuses, PublicationRefused when the forge proved that it did
        nothing, ReconciliationRequired when nobody can tell.
        """
        task = asyncio.create_task(self._publish(command))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_tell_nobody_heard)
            raise

    async def drained(self) -> None:
        """Returns when no publication is under way any more."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def _publish(self, command: PublishReview) -> Published:
        with spans.publication_span(self._tracer, fence=command.fence, kind=REVIEW) as span:
            try:
                published = await self._claimed_and_sent(command, span)
            except FencepostError as refusal:
                spans.tell_refusal(span, refusal.reason)
                raise
            return published

    async def _claimed_and_sent(self, command: PublishReview, span: Span) -> Published:
        ready = await self._claim(command)
        if isinstance(ready, Published):
            spans.tell_outcome(span, spans.DUPLICATE)
            return ready
        claimed, slot = ready.claim, ready.claim.slot
        spans.tell_attempt(span, slot)
        outcome = await self._sent(ready)
        publication = await self._recorded(claimed, outcome)
        status = outcome.status.value
        spans.tell_outcome(span, status)
        metrics.PUBLICATION_ATTEMPTS.labels(REVIEW, status).inc()
        log.info("publication attempted", **vars(slot), outcome=status)
        return _answer(claimed, outcome, publication)

    async def _claim(self, command: PublishReview) -> _Ready | Published:
        claim_token = secrets.token_hex(16)
        made: _Ready | None = None

        async def in_one_transaction(tx: Transaction) -> _Ready | Published:
            nonlocal made
            made = None
            opened: list[Forge] = []

            async def compose(place: Place, slot: Slot) -> Draft:
                forge = await self._opened(tx, command, place)
                opened.append(forge)
                return forge.review_draft(place, command.review, slot)

            result = await ledger.claim(
                tx,
                command,
                compose=compose,
                claim_token=claim_token,
                traceparent=current_traceparent(),
            )
            if isinstance(result, Published):
                return result
            made = _Ready(result, opened[0])
            return made

        try:
            return await self._database.run(in_one_transaction)
        except DatabaseUnavailable as lost:
            if made is None or not lost.outcome_unknown:
                raise
            return await self._found(made, lost)

    async def _opened(self, tx: Transaction, command: PublishReview, place: Place) -> Forge:
        """The forge of this place, before anything is marked: what fails here has sent nothing."""
        access = await self._connections.open(
            tx, tenant=command.fence.tenant, forge_instance=place.forge_instance
        )
        return self._forges.writing(access)

    async def _found(self, ready: _Ready, lost: DatabaseUnavailable) -> _Ready:
        """The claim whose commit was not answered, once it is known that it stands. Keeps X6."""
        claimed = ready.claim
        try:
            stands = await self._insisting(lambda tx: ledger.is_claimed(tx, claimed))
        except (DatabaseUnavailable, Overloaded):
            log.exception("whether a publication is claimed is not known", **vars(claimed.slot))
            raise lost from None
        if not stands:
            raise DatabaseUnavailable from lost
        return ready

    async def _sent(self, ready: _Ready) -> Outcome:
        claimed = ready.claim
        try:
            return await ready.forge.send(claimed.draft)
        except Exception as fault:
            # A fault of ours, somewhere between the claim and the answer: doubt, then the fault.
            await self._recorded(
                claimed, Uncertain(f"the publisher failed: {type(fault).__name__}")
            )
            raise

    async def _recorded(self, claimed: Claim, outcome: Outcome) -> Publication:
        try:
            return await self._insisting(lambda tx: ledger.settle(tx, claimed, outcome))
        except (DatabaseUnavailable, Overloaded):
            metrics.PUBLICATIONS_UNRECORDED.inc()
            log.exception(
                "the outcome of a publication is not recorded", **_known(claimed, outcome)
            )
            raise _in_doubt(claimed, AttemptStatus.RUNNING) from None

    async def _insisting(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Repeats a transaction that may be repeated while the database is away, for a time."""
        clock = asyncio.get_running_loop()
        give_up_at_s = clock.time() + self._record_window_ms / 1000
        pause_ms = FIRST_PAUSE_MS
        while True:
            try:
                return await self._database.run(work)
            except (DatabaseUnavailable, Overloaded):
                if clock.time() >= give_up_at_s:
                    raise
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)


def _tell_nobody_heard(task: asyncio.Task[Published]) -> None:
    error = None if task.cancelled() else task.exception()
    log.warning("a publication went on without its caller", exc_info=error)


def _answer(claimed: Claim, outcome: Outcome, publication: Publication) -> Published:
    match outcome:
        case Succeeded():
            return Published(publication=publication)
        case Refused(detail=detail):
            raise PublicationRefused(publication_id=claimed.slot.publication_id, proof=detail)
        case Uncertain():
            raise _in_doubt(claimed, AttemptStatus.UNCERTAIN)


def _in_doubt(claimed: Claim, status: AttemptStatus) -> ReconciliationRequired:
    publication_id = claimed.slot.publication_id
    return ReconciliationRequired(
        publication_id=publication_id,
        status=status.value,
        message=f"Publication {publication_id} may have reached the forge and nothing proves it: "
        "nothing is sent again until it is settled.",
    )


def _known(claimed: Claim, outcome: Outcome) -> dict[str, object]:
    remote = outcome.remote_url if isinstance(outcome, Succeeded) else outcome.detail
    return {**vars(claimed.slot), "outcome": outcome.status.value, "known": remote}

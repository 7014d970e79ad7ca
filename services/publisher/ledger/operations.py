"""The ledger's transactions: claim an attempt, settle it, read it.

A claim is one transaction immediately before one call, so it takes one command and not a list
(P2b). It holds the change request and the lease to its commit, and whatever it refuses it leaves
unwritten.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fencepost.errors import (
    CheckpointRequired,
    FieldInvalid,
    LeaseLost,
    PublicationBlocked,
    PublicationsHeld,
    ReconciliationRequired,
    ResourceNotFound,
)

from services.publisher.ledger import rules, store, store_fence
from services.publisher.ledger.rules import AlreadyDone, Blocked, InDoubt, Send
from services.publisher.ledger.store import Identity, NewAttempt, Settlement
from services.publisher.ledger.store_fence import IntentRow, LeaseRow
from services.publisher.model import (
    REVIEW,
    Attempt,
    Draft,
    Fence,
    Outcome,
    Place,
    Publication,
    Published,
    PublishReview,
    Slot,
    Succeeded,
)
from shared.database import Transaction
from shared.schema.states import AttemptStatus

Compose = Callable[[Place, Slot], Awaitable[Draft]]
"""Writes the request for a place, naming the slot; asks nobody outside of this transaction."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """An attempt that this process alone may send and settle."""

    fence: Fence
    slot: Slot
    draft: Draft
    claim_token: str


async def claim(
    tx: Transaction,
    command: PublishReview,
    *,
    compose: Compose,
    claim_token: str,
    traceparent: str,
) -> Claim | Published:
    """Marks an attempt running, or returns what had been published before. Keeps L3, P1, P2, P11.

    Raises LeaseLost, CheckpointRequired, PublicationsHeld, ReconciliationRequired,
    PublicationBlocked, FieldInvalid, ResourceNotFound; then nothing is written.
    """
    ground = await _fenced(tx, command)
    publication_id = await _identified(tx, command, ground)
    digest = rules.content_digest(command.review.content())
    decision = await _decision(tx, command.fence.tenant, publication_id)
    if isinstance(decision, AlreadyDone):
        return await _stored(tx, command.fence.tenant, publication_id, decision.attempt, digest)
    attempt = _attempt_to_make(decision, publication_id)
    await _refuse_if_held(tx, command.fence, ground.place)
    slot = Slot(key=command.fence.key, publication_id=publication_id, attempt=attempt)
    draft = await compose(ground.place, slot)
    claimed = Claim(fence=command.fence, slot=slot, draft=draft, claim_token=claim_token)
    made = await store.insert_attempt(
        tx, _running(command, claimed, digest=digest, traceparent=traceparent)
    )
    return claimed if made is not None else await _beaten(tx, command, publication_id, digest)


async def is_claimed(tx: Transaction, claimed: Claim) -> bool:
    """Whether this claim was committed, once its transaction has surely ended. Keeps X6."""
    fence, slot = claimed.fence, claimed.slot
    await store_fence.await_lease(tx, tenant=fence.tenant, key=fence.key, action=fence.action)
    status = await store.claim_status(
        tx,
        tenant=fence.tenant,
        publication_id=slot.publication_id,
        attempt=slot.attempt,
        claim_token=claimed.claim_token,
    )
    return status is not None


async def settle(tx: Transaction, claimed: Claim, outcome: Outcome) -> Publication:
    """Records what came of a claimed attempt, once, whoever holds the lease now. Keeps P5.

    Repeating it changes nothing. Returns the publication as it then stands.
    """
    tenant, slot = claimed.fence.tenant, claimed.slot
    await store.settle_attempt(
        tx,
        _settlement(outcome),
        tenant=tenant,
        publication_id=slot.publication_id,
        attempt=slot.attempt,
        claim_token=claimed.claim_token,
    )
    return await read(tx, tenant=tenant, publication_id=slot.publication_id)


async def read(tx: Transaction, *, tenant: str | None, publication_id: int) -> Publication:
    """A publication with its attempts. Raises ResourceNotFound, also for another tenant's (X8)."""
    row = await store.read_publication(tx, tenant=tenant, publication_id=publication_id)
    if row is None:
        raise ResourceNotFound(kind="publication", name=str(publication_id))
    attempts = await store.attempts_of(tx, tenant=tenant, publication_id=publication_id)
    return Publication(**vars(row), attempts=tuple(Attempt(**vars(each)) for each in attempts))


@dataclass(frozen=True, kw_only=True)
class _Ground:
    """What a claim stands on: the caller's live lease and where its work lies."""

    intent: IntentRow
    place: Place
    lease: LeaseRow


async def _fenced(tx: Transaction, command: PublishReview) -> _Ground:
    if rules.never_publishes(command.fence.action):
        rule = "must not be shadow dispatch, which never publishes"
        raise FieldInvalid(violations=[("fence.action", rule)])
    intent = await _intent(tx, command)
    place = await _locked_place(tx, command.fence.tenant, intent)
    lease = await _locked_lease(tx, command)
    await _require_checkpoint(tx, command, generation=lease.generation)
    return _Ground(intent=intent, place=place, lease=lease)


async def _intent(tx: Transaction, command: PublishReview) -> IntentRow:
    fence = command.fence
    intent = await store_fence.find_intent(tx, tenant=fence.tenant, intent_id=command.intent_id)
    if intent is None:
        raise ResourceNotFound(kind="intent", name=str(command.intent_id))
    if (intent.key, intent.action) != (fence.key, fence.action):
        raise _lease_lost(fence)
    return intent


async def _locked_place(tx: Transaction, tenant: str, intent: IntentRow) -> Place:
    parts = (intent.forge_instance, intent.repo_id, intent.number, intent.head_sha)
    forge_instance, repo_id, number, head_sha = parts
    if forge_instance is None or repo_id is None or number is None or head_sha is None:
        rule = "must be work on a change request: a review has no other place"
        raise FieldInvalid(violations=[("intent_id", rule)])
    found = await store_fence.lock_change_request(
        tx, tenant=tenant, forge_instance=forge_instance, repo_id=repo_id, number=number
    )
    if found is None:
        name = f"{forge_instance}/{repo_id}#{number}"
        raise ResourceNotFound(kind="change request", name=name)
    return Place(
        forge=found.forge,
        forge_instance=forge_instance,
        repo_id=repo_id,
        repo_name=found.repo_name,
        number=number,
        head_sha=head_sha,
    )


async def _locked_lease(tx: Transaction, command: PublishReview) -> LeaseRow:
    lease = await store_fence.lock_lease(tx, **vars(command.fence))
    if lease is None or lease.intent_id != command.intent_id:
        raise _lease_lost(command.fence)
    return lease


async def _require_checkpoint(tx: Transaction, command: PublishReview, *, generation: int) -> None:
    fence = command.fence
    latest = await store_fence.checkpoint_version(
        tx, tenant=fence.tenant, key=fence.key, action=fence.action, generation=generation
    )
    wanted = command.checkpoint_version
    if not rules.is_durable(wanted_version=wanted, latest_version=latest or 0):
        raise CheckpointRequired(wanted_version=wanted, latest_version=latest or 0)


async def _refuse_if_held(tx: Transaction, fence: Fence, place: Place) -> None:
    hold = await store_fence.standing_hold(
        tx,
        tenant=fence.tenant,
        action=fence.action,
        forge_instance=place.forge_instance,
        repo_id=place.repo_id,
        number=place.number,
    )
    if hold is not None:
        raise PublicationsHeld(hold_id=hold.hold_id, why=hold.reason)


async def _identified(tx: Transaction, command: PublishReview, ground: _Ground) -> int:
    identity = Identity(
        tenant=command.fence.tenant,
        key=command.fence.key,
        action=command.fence.action,
        generation=ground.lease.generation,
        name=command.name,
        kind=REVIEW,
        target=ground.place.target,
        ordinal=command.ordinal,
    )
    key_label = ground.intent.key_label
    made = await store.insert_publication(
        tx, identity, key_label=key_label, intent_id=command.intent_id
    )
    found = made if made is not None else await store.find_publication(tx, identity)
    assert found is not None, "an identity that conflicts is there"
    return found


async def _decision(tx: Transaction, tenant: str, publication_id: int) -> rules.Decision:
    attempts = await store.attempts_of(tx, tenant=tenant, publication_id=publication_id)
    return rules.decide([(row.attempt, row.status) for row in attempts])


def _attempt_to_make(decision: Send | InDoubt | Blocked, publication_id: int) -> int:
    match decision:
        case Send(attempt=attempt):
            return attempt
        case InDoubt(status=status):
            raise ReconciliationRequired(publication_id=publication_id, status=status.value)
        case Blocked():
            raise PublicationBlocked(publication_id=publication_id)


def _running(
    command: PublishReview, claimed: Claim, *, digest: bytes, traceparent: str
) -> NewAttempt:
    return NewAttempt(
        tenant=command.fence.tenant,
        publication_id=claimed.slot.publication_id,
        attempt=claimed.slot.attempt,
        holder=command.fence.holder,
        epoch=command.fence.epoch,
        intent_id=command.intent_id,
        claim_token=claimed.claim_token,
        checkpoint_version=command.checkpoint_version,
        digest=digest,
        request=claimed.draft.as_stored(),
        evidence=claimed.draft.evidence,
        traceparent=traceparent,
    )


async def _beaten(
    tx: Transaction, command: PublishReview, publication_id: int, digest: bytes
) -> Published:
    """The answer to a claim that another one forestalled; nothing may be sent."""
    decision = await _decision(tx, command.fence.tenant, publication_id)
    if isinstance(decision, AlreadyDone):
        return await _stored(tx, command.fence.tenant, publication_id, decision.attempt, digest)
    status = decision.status if isinstance(decision, InDoubt) else AttemptStatus.RUNNING
    raise ReconciliationRequired(publication_id=publication_id, status=status.value)


async def _stored(
    tx: Transaction, tenant: str, publication_id: int, attempt: int, digest: bytes
) -> Published:
    publication = await read(tx, tenant=tenant, publication_id=publication_id)
    succeeded = next(each for each in publication.attempts if each.attempt == attempt)
    return Published(
        publication=publication, duplicate=True, digest_differs=succeeded.digest != digest
    )


def _settlement(outcome: Outcome) -> Settlement:
    if not isinstance(outcome, Succeeded):
        return Settlement(status=outcome.status, detail=outcome.detail)
    return Settlement(
        status=outcome.status,
        remote_id=outcome.remote_id,
        remote_url=outcome.remote_url,
        result=outcome.result,
    )


def _lease_lost(fence: Fence) -> LeaseLost:
    return LeaseLost(key=fence.key, action=fence.action, epoch=fence.epoch)

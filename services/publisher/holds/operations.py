"""Placing and lifting holds (P11), each in one transaction with its audit entry."""

import json
from dataclasses import dataclass
from datetime import datetime

from fencepost.errors import RequestIdReused, ResourceNotFound

from services.publisher.audit_store import EVERY_TENANT, insert_audit_entry
from services.publisher.holds import rules, store
from services.publisher.holds.store import Answered, NewHold
from shared.database import Transaction

PLACE = "HoldPublications"
RELEASE = "ReleaseHold"


@dataclass(frozen=True, kw_only=True)
class HoldScope:
    """How wide a hold is; a field that is None holds every value of it."""

    tenant: str | None
    action: str | None = None
    forge_instance: str | None = None
    repo_id: int | None = None
    number: int | None = None


@dataclass(frozen=True, kw_only=True)
class PlaceHold:
    """An operator's wish to stop publications."""

    request_id: str
    scope: HoldScope
    reason: str
    key_id: str


async def place(tx: Transaction, command: PlaceHold) -> int:
    """Places the hold and returns its id; a repeat of the request id returns the first one's.

    Raises RequestIdReused for the id with another scope or reason.
    """
    scope = command.scope
    tenant = scope.tenant or EVERY_TENANT
    digest = rules.request_digest(*vars(scope).values(), command.reason)
    request = {"tenant": tenant, "method": PLACE, "request_id": command.request_id}
    await store.lock_request(tx, **request)
    answered = await store.find_answer(tx, **request)
    if answered is not None:
        if answered.digest != digest:
            raise RequestIdReused(request_id=command.request_id)
        return int(answered.response)
    hold_id = await store.insert_hold(
        tx, NewHold(**vars(scope), reason=command.reason, placed_by=command.key_id)
    )
    await insert_audit_entry(
        tx,
        tenant=tenant,
        key_id=command.key_id,
        action=PLACE,
        subject=_subject(hold_id),
        reason=command.reason,
        detail=json.dumps(vars(scope)),
    )
    await store.insert_answer(
        tx, Answered(digest=digest, response=str(hold_id).encode()), **request
    )
    return hold_id


async def release(tx: Transaction, *, tenant: str | None, hold_id: int, key_id: str) -> datetime:
    """Lifts the hold and returns when it was lifted first; a repeat changes nothing.

    Raises ResourceNotFound, also for another tenant's (X8).
    """
    lifted_at = await store.release_hold(tx, tenant=tenant, hold_id=hold_id, released_by=key_id)
    if lifted_at is None:
        lifted_before_at = await store.released_at(tx, tenant=tenant, hold_id=hold_id)
        if lifted_before_at is None:
            raise ResourceNotFound(kind="hold", name=str(hold_id))
        return lifted_before_at
    await insert_audit_entry(
        tx,
        tenant=tenant or EVERY_TENANT,
        key_id=key_id,
        action=RELEASE,
        subject=_subject(hold_id),
        reason="",
        detail="{}",
    )
    return lifted_at


def _subject(hold_id: int) -> str:
    return f"hold {hold_id}"

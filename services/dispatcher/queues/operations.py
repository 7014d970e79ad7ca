"""Queues: declared, read, listed, paused and resumed; each change is one transaction with its
audit entry (W7).

None needs a request id: what is declared is told from another by itself.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fencepost.errors import FieldInvalid, ResourceNotFound

from services.dispatcher.queues import rules, store
from services.dispatcher.queues.model import Declared
from services.dispatcher.queues.rules import Change
from services.dispatcher.queues.store import QueueRow
from shared.database import Database, Transaction

PUT = "PutQueue"
PAUSE = "PauseQueue"
RESUME = "ResumeQueue"

QUEUES_PER_TENANT_MAX = 1000


@dataclass(frozen=True, kw_only=True)
class Admin:
    """Who asks, and for which tenant."""

    key_id: str
    tenant: str


@dataclass(frozen=True, kw_only=True)
class PutQueue:
    """A queue as it shall be."""

    admin: Admin
    declared: Declared
    validate_only: bool


@dataclass(frozen=True, kw_only=True)
class PutOutcome:
    """What is stored, if anything, and what differed from what was declared."""

    stored: QueueRow | None
    created: bool
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """Queues by tenant and name; the token is empty on the last page."""

    queues: tuple[QueueRow, ...]
    next_page_token: str


@dataclass(frozen=True)
class QueueOperations:
    """Queues on one database."""

    database: Database

    async def put(self, command: PutQueue) -> PutOutcome:
        """Declares or changes a queue, or says what would change. Keeps W7, X8.

        Raises FieldInvalid; then nothing is written.
        """
        if found := rules.problems(command.declared):
            raise FieldInvalid(violations=found)
        return await self.database.run(lambda tx: put(tx, command))

    async def get(self, tenant: str, name: str) -> QueueRow:
        """The tenant's queue; raises ResourceNotFound for another's, or none (X8)."""
        return await self.database.read(lambda tx: _find(tx, tenant, name))

    async def pause(self, admin: Admin, name: str, reason: str) -> QueueRow:
        """Ends its grants; again it changes nothing. Keeps W7, X8. Raises ResourceNotFound."""
        return await self.database.run(lambda tx: pause(tx, admin, name, reason))

    async def resume(self, admin: Admin, name: str, reason: str) -> QueueRow:
        """Lets them go on; again it changes nothing. Keeps W7, X8. Raises ResourceNotFound."""
        return await self.database.run(lambda tx: resume(tx, admin, name, reason))

    async def page(self, tenant: str | None, *, size: int, token: str) -> Page:
        """One page; raises FieldInvalid for a token that was never given out."""
        after = rules.page_position(token) if token else None
        if token and after is None:
            sentence = "must be the next_page_token of an answer, or empty"
            raise FieldInvalid(violations=[("page_token", sentence)])
        rows = await self.database.read(
            lambda tx: store.list_queues(tx, tenant=tenant, after=after, limit=size + 1)
        )
        shown = tuple(rows[:size])
        more = len(rows) > size
        token = rules.page_token(shown[-1].tenant, shown[-1].name) if more else ""
        return Page(queues=shown, next_page_token=token)


async def put(tx: Transaction, command: PutQueue) -> PutOutcome:
    """Under the lock of the queue's row; a rival that declared it first is met as it is."""
    tenant, declared = command.admin.tenant, command.declared
    row = await store.lock_queue(tx, tenant=tenant, name=declared.name)
    if row is None:
        changes = rules.changes(None, declared)
        if await store.count_queues(tx, tenant=tenant) >= QUEUES_PER_TENANT_MAX:
            sentence = f"would be more than the {QUEUES_PER_TENANT_MAX} that a tenant may have"
            raise FieldInvalid(violations=[("queue.name", sentence)])
        if command.validate_only:
            return PutOutcome(stored=None, created=True, changes=tuple(changes))
        if await store.insert_queue(tx, tenant=tenant, declared=declared):
            return await _done(tx, command, created=True, changes=changes)
        row = await store.lock_queue(tx, tenant=tenant, name=declared.name)
        assert row is not None, "queues are never deleted"
    return await _change(tx, command, row)


async def pause(tx: Transaction, admin: Admin, name: str, reason: str) -> QueueRow:
    """Pauses a queue; one that is paused is returned as it is."""
    if await store.pause_queue(tx, tenant=admin.tenant, name=name):
        await _write_down(tx, admin, PAUSE, name, {}, reason=reason)
    return await _find(tx, admin.tenant, name)


async def resume(tx: Transaction, admin: Admin, name: str, reason: str) -> QueueRow:
    """Resumes a paused queue; one that is not is returned as it is."""
    if await store.resume_queue(tx, tenant=admin.tenant, name=name):
        await _write_down(tx, admin, RESUME, name, {}, reason=reason)
    return await _find(tx, admin.tenant, name)


async def _change(tx: Transaction, command: PutQueue, row: QueueRow) -> PutOutcome:
    changes = rules.changes(declared_of(row), command.declared)
    if command.validate_only or not changes:
        return PutOutcome(stored=row, created=False, changes=tuple(changes))
    changed = await store.update_queue(tx, tenant=row.tenant, declared=command.declared)
    assert changed, "a locked queue went on without us"
    return await _done(tx, command, created=False, changes=changes)


async def _done(
    tx: Transaction, command: PutQueue, *, created: bool, changes: Sequence[Change]
) -> PutOutcome:
    admin, name = command.admin, command.declared.name
    detail = {"created": created, "changes": [vars(change) for change in changes]}
    await _write_down(tx, admin, PUT, name, detail)
    stored = await _find(tx, admin.tenant, name)
    return PutOutcome(stored=stored, created=created, changes=tuple(changes))


async def _find(tx: Transaction, tenant: str, name: str) -> QueueRow:
    row = await store.find_queue(tx, tenant=tenant, name=name)
    if row is None:
        raise ResourceNotFound(kind="queue", name=name)
    return row


async def _write_down(
    tx: Transaction,
    admin: Admin,
    action: str,
    name: str,
    detail: Mapping[str, object],
    reason: str = "",
) -> None:
    await store.insert_audit_entry(
        tx,
        tenant=admin.tenant,
        key_id=admin.key_id,
        action=action,
        subject=f"queue {name}",
        reason=reason,
        detail=json.dumps(detail),
    )


def declared_of(row: QueueRow) -> Declared:
    """What was declared when the row was written."""
    return Declared(
        name=row.name,
        retries_max=row.retries_max,
        retry_delays_ms=row.retry_delays_ms,
        retry_cap_ms=row.retry_cap_ms,
        retry_jitter_percent=row.retry_jitter_percent,
        lease_ms=row.lease_ms,
    )

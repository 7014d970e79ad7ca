"""Queues: declared, read and listed; each change is one transaction with its audit entry (W7).

None needs a request id: what is declared is told from another by itself.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.errors import FieldInvalid, ResourceNotFound

from services.dispatcher.queues import rules, store
from services.dispatcher.queues.model import Declared
from services.dispatcher.queues.rules import Change
from services.dispatcher.queues.store import QueueRow
from shared.database import Database, Transaction

PUT = "PutQueue"

QUEUES_PER_TENANT_MAX = 1000


@dataclass(frozen=True, kw_only=True)
class PutQueue:
    """A queue as it shall be, and who asks for it, for which tenant."""

    key_id: str
    tenant: str
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
        row = await self.database.read(lambda tx: store.find_queue(tx, tenant=tenant, name=name))
        if row is None:
            raise ResourceNotFound(kind="queue", name=name)
        return row

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
    tenant, declared = command.tenant, command.declared
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
    tenant, name = command.tenant, command.declared.name
    detail = {"created": created, "changes": [vars(change) for change in changes]}
    await store.insert_audit_entry(
        tx,
        tenant=tenant,
        key_id=command.key_id,
        action=PUT,
        subject=f"queue {name}",
        detail=json.dumps(detail),
    )
    stored = await store.find_queue(tx, tenant=tenant, name=name)
    return PutOutcome(stored=stored, created=created, changes=tuple(changes))


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

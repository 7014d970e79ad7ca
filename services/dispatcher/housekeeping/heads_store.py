"""Statements on intents that wait for their head; each row is claimed by moving its due time."""

from dataclasses import dataclass
from datetime import datetime

from shared.database import Transaction, statement
from shared.schema.states import ChangeRequestState


@dataclass(frozen=True, kw_only=True)
class Headless:
    """An intent without a head; whoever claimed it last has this `due_at`."""

    intent_id: int
    tenant: str
    queue: str
    priority: int
    action: str
    attempts: int
    due_at: datetime
    forge_instance: str
    repo_id: int
    number: int
    suffix: str


_CLAIM_HEADLESS = statement("""
    WITH due AS (
        SELECT intent_id FROM waiting
        WHERE waits_on = 'head' AND due_at <= statement_timestamp()
        ORDER BY due_at LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE waiting AS w
        SET due_at = clock_timestamp() + %(claim_ms)s * interval '1 millisecond'
        FROM due WHERE w.intent_id = due.intent_id
        RETURNING w.intent_id, w.tenant, w.queue, w.priority, w.action, w.attempts, w.due_at
    )
    SELECT intent_id, tenant, c.queue, c.priority, c.action, c.attempts, c.due_at,
        i.forge_instance, i.repo_id, i.number, i.suffix
    FROM claimed AS c
    JOIN intents AS i USING (tenant, intent_id)
""")


async def claim_headless(tx: Transaction, *, limit: int, claim_ms: int) -> list[Headless]:
    """Intents whose head is to be asked for now; nobody else asks for theirs for so long."""
    return await tx.all(_CLAIM_HEADLESS, Headless, limit=limit, claim_ms=claim_ms)


@dataclass(frozen=True)
class ChangeRequestRow:
    """What is recorded of a change request, its row locked."""

    generation: int
    state: ChangeRequestState


_LOCK_CHANGE_REQUEST = statement("""
    SELECT generation, state
    FROM change_requests
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s
        AND repo_id = %(repo_id)s AND number = %(number)s
    FOR UPDATE
""")


async def lock_change_request(tx: Transaction, headless: Headless) -> ChangeRequestRow | None:
    """What is recorded of it, locked to the commit. None: nobody has told of it."""
    return await tx.one(
        _LOCK_CHANGE_REQUEST,
        ChangeRequestRow,
        tenant=headless.tenant,
        forge_instance=headless.forge_instance,
        repo_id=headless.repo_id,
        number=headless.number,
    )


@dataclass(frozen=True, kw_only=True)
class NewChangeRequest:
    """A change request as its forge has it."""

    tenant: str
    forge_instance: str
    repo_id: int
    number: int
    forge: str
    repo_name: str
    url: str
    base_ref: str
    head_sha: str
    generation: int
    forge_updated_at: datetime | None


_INSERT_CHANGE_REQUEST = statement("""
    INSERT INTO change_requests (
        tenant, forge_instance, repo_id, number, forge, repo_name, url, base_ref, head_sha,
        generation, state, forge_updated_at
    ) VALUES (
        %(tenant)s, %(forge_instance)s, %(repo_id)s, %(number)s, %(forge)s, %(repo_name)s, %(url)s,
        %(base_ref)s, %(head_sha)s, %(generation)s, 'open', %(forge_updated_at)s
    )
    ON CONFLICT (tenant, forge_instance, repo_id, number) DO NOTHING
""")


async def insert_change_request(tx: Transaction, new: NewChangeRequest) -> bool:
    """Records one that nobody told of, and so locks it; False when a rival was first."""
    return await tx.execute(_INSERT_CHANGE_REQUEST, **vars(new)) == 1


_INSERT_HEAD = statement("""
    INSERT INTO change_request_heads (tenant, forge_instance, repo_id, number, generation, head_sha)
    VALUES (%(tenant)s, %(forge_instance)s, %(repo_id)s, %(number)s, %(generation)s, %(head_sha)s)
""")


async def insert_head(tx: Transaction, new: NewChangeRequest) -> None:
    """Records that its head became current; the change request's row is locked."""
    await tx.execute(
        _INSERT_HEAD,
        tenant=new.tenant,
        forge_instance=new.forge_instance,
        repo_id=new.repo_id,
        number=new.number,
        generation=new.generation,
        head_sha=new.head_sha,
    )


_END_WAIT = statement("""
    DELETE FROM waiting
    WHERE tenant = %(tenant)s AND intent_id = %(intent_id)s AND waits_on = 'head'
        AND due_at = %(due_at)s
""")


async def end_wait(tx: Transaction, headless: Headless) -> bool:
    """Ends the wait that we claimed; False when another has claimed or ended it since."""
    ended = await tx.execute(
        _END_WAIT, tenant=headless.tenant, intent_id=headless.intent_id, due_at=headless.due_at
    )
    return ended == 1


_NAME_HEAD = statement("""
    UPDATE intents
    SET head_sha = %(head_sha)s, key = %(key)s, key_label = %(key_label)s,
        generation = %(generation)s
    WHERE tenant = %(tenant)s AND intent_id = %(intent_id)s AND status = 'open'
        AND head_sha IS NULL
""")


async def name_head(
    tx: Transaction,
    headless: Headless,
    *,
    head_sha: str,
    key: str,
    key_label: str,
    generation: int,
) -> bool:
    """Stores the head once; False when the intent has ended or has one."""
    named = await tx.execute(
        _NAME_HEAD,
        tenant=headless.tenant,
        intent_id=headless.intent_id,
        head_sha=head_sha,
        key=key,
        key_label=key_label,
        generation=generation,
    )
    return named == 1


_POSTPONE = statement("""
    UPDATE waiting
    SET due_at = clock_timestamp() + %(delay_ms)s * interval '1 millisecond',
        attempts = %(attempts)s, reason = %(reason)s
    WHERE tenant = %(tenant)s AND intent_id = %(intent_id)s AND waits_on = 'head'
        AND due_at = %(due_at)s
""")


async def postpone(
    tx: Transaction, headless: Headless, *, attempts: int, delay_ms: int, reason: str
) -> None:
    """Lets it be asked for again after the delay, with so many attempts; where the claim stands."""
    await tx.execute(
        _POSTPONE,
        tenant=headless.tenant,
        intent_id=headless.intent_id,
        due_at=headless.due_at,
        attempts=attempts,
        delay_ms=delay_ms,
        reason=reason,
    )

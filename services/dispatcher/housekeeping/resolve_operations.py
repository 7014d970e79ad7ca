"""Duty: work whose head is not known is given one by its forge, before anything can be granted.

The publisher is asked outside of any transaction. What it says is stored in one guarded
transaction, in the order of locks: change request, then intent (X7). A process that dies between
the two leaves a claim that ends by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from fencepost.errors import (
    ConnectionDisabled,
    ConnectionMissing,
    FieldInvalid,
    ForgeUnavailable,
    Internal,
    ResourceNotFound,
    SealingKeyUnknown,
    SecretTampered,
)

from services.dispatcher.dispatch import outcomes_store, ready_store
from services.dispatcher.dispatch.outcomes_store import IntentEnd
from services.dispatcher.dispatch.ready_store import ReadyRow
from services.dispatcher.dispatch.wakeups import Lane, Wakeups
from services.dispatcher.housekeeping import heads_store
from services.dispatcher.housekeeping.heads_rules import (
    Blocked,
    Recorded,
    Unclear,
    Unwanted,
    Work,
    decide,
)
from services.dispatcher.housekeeping.heads_store import Headless, NewChangeRequest
from services.dispatcher.queues.policy_operations import rules_of
from services.dispatcher.settings import DispatcherSettings
from shared.database import Database, Transaction
from shared.keys import Key
from shared.schema.states import ChangeRequestState, IntentStatus

ASKED_AT_ONCE = 20
CHANGE_REQUEST = "change request"


@dataclass(frozen=True, kw_only=True)
class Question:
    """A change request whose head is wanted."""

    tenant: str
    forge_instance: str
    repo_id: int
    number: int


@dataclass(frozen=True, kw_only=True)
class ForgeHead:
    """What a forge has now."""

    forge: str
    repo_name: str
    head_sha: str
    state: ChangeRequestState
    base_ref: str
    updated_at: datetime | None
    url: str


Aside = Unwanted | Unclear | Blocked
Answer = ForgeHead | Aside
Verdict = Work | Unwanted | Unclear
Ask = Callable[[Question], Awaitable[ForgeHead]]
"""Asks the publisher; raises the error that it answers, or that it does not."""


class HeadResolver:
    """Names the heads of intents that wait for one."""

    def __init__(
        self, database: Database, wakeups: Wakeups, ask: Ask, settings: DispatcherSettings
    ) -> None:
        self._database = database
        self._wakeups = wakeups
        self._ask = ask
        self._claim_ms = 2 * settings.publisher_timeout_ms
        self._settings = settings

    async def tick(self) -> bool:
        """Asks for what is due; True when there may be more. Keeps I7.

        Raises FencepostError when the publisher itself does not answer: that costs no attempt.
        """
        due = await self._database.run(
            lambda tx: heads_store.claim_headless(tx, limit=ASKED_AT_ONCE, claim_ms=self._claim_ms)
        )
        ended = await asyncio.gather(*map(self._resolve, due), return_exceptions=True)
        for failure in ended:
            if isinstance(failure, BaseException):
                raise failure
        return len(due) == ASKED_AT_ONCE

    async def _resolve(self, headless: Headless) -> None:
        answer = await self._answer(headless)
        is_ready = await self._database.run(lambda tx: self._apply(tx, headless, answer))
        if is_ready:
            self._wakeups.wake({Lane(headless.tenant, headless.queue)})

    async def _answer(self, headless: Headless) -> Answer:
        question = Question(
            tenant=headless.tenant,
            forge_instance=headless.forge_instance,
            repo_id=headless.repo_id,
            number=headless.number,
        )
        try:
            return await self._ask(question)
        except ResourceNotFound as missing:
            gone = missing.kind == CHANGE_REQUEST
            return Unwanted(missing.message) if gone else Unclear(missing.message)
        except ForgeUnavailable as away:
            return Unclear(away.message, away.retry_after_ms)
        except (ConnectionMissing, ConnectionDisabled, SealingKeyUnknown, SecretTampered) as shut:
            return Blocked(shut.message)
        except (FieldInvalid, Internal) as refused:
            return Unclear(refused.message)

    async def _apply(self, tx: Transaction, headless: Headless, answer: Answer) -> bool:
        """Stores what follows from the answer; True when the intent became ready."""
        if isinstance(answer, Aside):
            return await self._set_aside(tx, headless, answer)
        decision = await _judged(tx, headless, answer)
        if not isinstance(decision, Work):
            return await self._set_aside(tx, headless, decision)
        if not await heads_store.end_wait(tx, headless):
            return False
        key = Key(
            forge_instance=headless.forge_instance,
            repo_id=headless.repo_id,
            number=headless.number,
            head_sha=answer.head_sha,
            suffix=headless.suffix,
        )
        named = await heads_store.name_head(
            tx,
            headless,
            head_sha=answer.head_sha,
            key=key.canonical(),
            key_label=key.label(answer.repo_name),
            generation=decision.generation,
        )
        if named:
            row = _ready(headless, key)
            await ready_store.line_up(tx, tenant=headless.tenant, rows=[row])
        return named

    async def _set_aside(self, tx: Transaction, headless: Headless, verdict: Aside) -> bool:
        """Ends the intent, or lets it be asked for again; it never becomes ready."""
        asked, recheck_ms = headless.attempts, self._settings.blocked_recheck_ms
        if isinstance(verdict, Unwanted):
            await _end(tx, headless, IntentStatus.ABANDONED, asked, verdict.reason)
        elif isinstance(verdict, Blocked):
            await heads_store.postpone(
                tx, headless, attempts=asked, delay_ms=recheck_ms, reason=verdict.reason
            )
        else:
            await self._ask_again(tx, headless, verdict)
        return False

    async def _ask_again(self, tx: Transaction, headless: Headless, verdict: Unclear) -> None:
        """Later, as its queue says, or never when it was asked too often."""
        tenant, queue, attempts = headless.tenant, headless.queue, headless.attempts + 1
        rules = await rules_of(tx, tenant=tenant, queues=[queue], settings=self._settings)
        if attempts >= rules.allowed(queue):
            cause = verdict.reason.rstrip(". ")
            reason = f"{cause} (asked {attempts} times, and {rules.allowed(queue)} are allowed)"
            await _end(tx, headless, IntentStatus.DEAD, attempts, reason)
            return
        delay_ms = max(rules.delay_ms(queue, attempts=attempts), verdict.retry_after_ms)
        await heads_store.postpone(
            tx, headless, attempts=attempts, delay_ms=delay_ms, reason=verdict.reason
        )


async def _judged(tx: Transaction, headless: Headless, head: ForgeHead) -> Verdict:
    """Decides under the lock of the change request, which is recorded if nobody told of it."""
    decision = decide(head.state, await _recorded(tx, headless))
    if not isinstance(decision, Work) or not decision.is_new:
        return decision
    new = NewChangeRequest(
        tenant=headless.tenant,
        forge_instance=headless.forge_instance,
        repo_id=headless.repo_id,
        number=headless.number,
        forge=head.forge,
        repo_name=head.repo_name,
        url=head.url,
        base_ref=head.base_ref,
        head_sha=head.head_sha,
        generation=decision.generation,
        forge_updated_at=head.updated_at,
    )
    if await heads_store.insert_change_request(tx, new):
        await heads_store.insert_head(tx, new)
        return decision
    return decide(head.state, await _recorded(tx, headless))


async def _recorded(tx: Transaction, headless: Headless) -> Recorded | None:
    row = await heads_store.lock_change_request(tx, headless)
    return None if row is None else Recorded(generation=row.generation, state=row.state)


async def _end(
    tx: Transaction, headless: Headless, status: IntentStatus, attempts: int, reason: str
) -> None:
    if await heads_store.end_wait(tx, headless):
        end = IntentEnd(
            intent_id=headless.intent_id,
            status=status,
            attempts=attempts,
            settled_by=None,
            reason=reason,
        )
        await outcomes_store.settle_intents(tx, tenant=headless.tenant, ends=[end])


def _ready(headless: Headless, key: Key) -> ReadyRow:
    """No attempt is charged for having asked: attempts count grants from here on (Q5)."""
    return ReadyRow(
        intent_id=headless.intent_id,
        queue=headless.queue,
        priority=headless.priority,
        key=key.canonical(),
        action=headless.action,
        attempts=0,
    )

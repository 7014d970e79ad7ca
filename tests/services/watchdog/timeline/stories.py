"""Rows of whole stories, as the services would have left them."""

from typing import Any

from psycopg import sql

from shared.keys import Key
from tests.rows import ChangeRequest, Row, Rows, Work, from_now
from tests.services.watchdog.timeline.facts import TRACEPARENT

MINUTE_MS = 60_000
WORKER = "s-1"


def key_of(pull: ChangeRequest, head_sha: str | None = None) -> str:
    """The ordinary key of a head, the present one unless another is named."""
    return Key(
        forge_instance=pull.forge_instance,
        repo_id=pull.repo_id,
        number=pull.number,
        head_sha=head_sha or pull.head_sha,
    ).canonical()


async def delivered(rows: Rows, pull: ChangeRequest, **values: Any) -> Row:
    """A delivery that spoke of the change request at its head."""
    return await rows.delivery(
        **{
            "tenant": pull.tenant,
            "key": key_of(pull),
            "key_label": "label",
            "forge_instance": pull.forge_instance,
            "repo_id": pull.repo_id,
            "number": pull.number,
            "traceparent": TRACEPARENT,
            **values,
        }
    )


async def published_story(rows: Rows, tenant: str = "acme", delivery_id: str = "d-1") -> Work:
    """What a delivery leaves behind that became a review: ten minutes ago, within a minute."""
    pull = await rows.change_request(tenant=tenant)
    await rows.change(
        "change_request_heads", {"repo_id": pull.repo_id}, became_current_at=_after(-0.02)
    )
    delivery = await delivered(rows, pull, delivery_id=delivery_id, received_at=_after(0))
    work = await rows.intent(
        pull,
        delivery_seq=delivery["delivery_seq"],
        created_at=_after(-0.01),
        status="succeeded",
        attempts=1,
        settled_at=_after(50),
        traceparent=TRACEPARENT,
    )
    await _dispatched(rows, work)
    await _flushed_twice(rows, work)
    await rows.attempt(
        await rows.publication(work),
        claimed_at=_after(40),
        settled_at=_after(41),
        remote_url=f"{pull.url}#pullrequestreview-80",
        traceparent=TRACEPARENT,
    )
    await delivered(
        rows,
        pull,
        delivery_id=f"{delivery_id}-again",
        received_at=_after(55),
        outcome="duplicate",
        matched_delivery_id=delivery_id,
    )
    return work


async def _dispatched(rows: Rows, work: Work) -> None:
    """A worker of version 2.1 held it and completed it."""
    worker = WORKER if work.tenant == "acme" else f"{WORKER}-{work.tenant}"
    await rows.insert(
        "sessions",
        session_id=worker,
        tenant=work.tenant,
        key_id="k",
        queues=["reviews"],
        replica="r",
        state="open",
        version="2.1",
    )
    await rows.lease(
        work, state="succeeded", holder=worker, granted_at=_after(1), settled_at=_after(50)
    )
    await rows.insert(
        "dispatches",
        **{name: getattr(work, name) for name in ("tenant", "key", "action", "generation")},
        epoch=1,
        intent_id=work.intent_id,
        holder=worker,
        attempt=1,
        granted_at=_after(1),
        ended_at=_after(49),
        outcome="completed",
        outcome_sha256=b"",
    )


async def _flushed_twice(rows: Rows, work: Work) -> None:
    await rows.run(work, phase="analysis", final=False)
    run = await rows.one("runs", intent_id=work.intent_id)
    await rows.change("flushes", {"run_id": run["run_id"]}, phase="analysis", flushed_at=_after(10))
    await rows.insert(
        "flushes",
        tenant=work.tenant,
        run_id=run["run_id"],
        flush_id="last",
        request_sha256=b"x" * 32,
        version=2,
        epoch=1,
        state_bytes=40_960,
        span_count=3,
        final=True,
        flushed_at=_after(30),
    )


def _after(seconds: float) -> sql.Composable:
    """So many seconds after the story began, ten minutes ago."""
    return from_now(round(1000 * seconds) - 10 * MINUTE_MS)

"""Work whose head is not known: what is asked, what is stored, and what is never granted before."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from fencepost.errors import (
    ConnectionDisabled,
    ConnectionMissing,
    DatabaseUnavailable,
    FencepostError,
    ForgeUnavailable,
    Internal,
    ResourceNotFound,
    SealingKeyUnknown,
    SecretTampered,
)

from services.dispatcher.housekeeping.resolve_operations import (
    ASKED_AT_ONCE,
    ForgeHead,
    HeadResolver,
    Question,
)
from shared.schema.states import ChangeRequestState
from tests.rows import ChangeRequest, Rows, Work, from_now
from tests.services.dispatcher.desk import Desk

HEAD = "f95f852bd8fca8fcc58a9a2d6c842781e32a215e"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FOUND = ForgeHead(
    forge="github",
    repo_name="octo-org/now",
    head_sha=HEAD,
    state=ChangeRequestState.OPEN,
    base_ref="main",
    updated_at=MOMENT,
    url="https://github.com/octo-org/now/pull/7",
)
CLOSED = replace(FOUND, state=ChangeRequestState.CLOSED)
SUFFIX = "manual-1024"
PLACE = {"forge_instance": "github.com", "repo_id": 4711, "number": 7}


@dataclass
class Publisher:
    """Answers in turn, the last one for ever; an exception is raised."""

    answers: Sequence[ForgeHead | Exception]
    asked: list[Question] = field(default_factory=list)

    async def ask(self, question: Question) -> ForgeHead:
        """One answer."""
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append(question)
        if isinstance(answer, Exception):
            raise answer
        return answer


def resolver(
    desk: Desk, *answers: ForgeHead | Exception, **settings: Any
) -> tuple[HeadResolver, Publisher]:
    """A duty of the desk's dispatcher, and whom it asks."""
    publisher = Publisher(answers)
    limits = desk.settings.model_copy(update=settings)
    return HeadResolver(desk.database, desk.wakeups, publisher.ask, limits), publisher


async def headless(
    rows: Rows, pull: ChangeRequest | None = None, *, due_in_ms: int = -1, **waiting: Any
) -> Work:
    """A manual command that waits for its head."""
    place = {name: getattr(pull, name) for name in PLACE} if pull else PLACE
    work = await rows.bare_intent(**place, suffix=SUFFIX, generation=0)
    await rows.waiting(work, waits_on="head", due_in_ms=due_in_ms, **waiting)
    return work


def gone() -> ResourceNotFound:
    return ResourceNotFound(kind="change request", name="github.com/4711#7", message="It is gone.")


async def intent(desk: Desk, work: Work) -> dict[str, Any]:
    return await desk.rows.one("intents", intent_id=work.intent_id)


@pytest.mark.guarantee("I7", "I6")
async def test_the_head_that_is_current_at_the_forge_becomes_the_works(desk: Desk) -> None:
    pull = await desk.rows.change_request(generation=3)
    work = await headless(desk.rows, pull, attempts=2)
    duty, publisher = resolver(desk, FOUND)
    heard = asyncio.Event()
    with desk.wakeups.listening("acme", ["reviews"], heard):
        assert not await duty.tick()
    assert heard.is_set()
    assert publisher.asked == [
        Question(tenant="acme", forge_instance="github.com", repo_id=pull.repo_id, number=7)
    ]
    row, ready = await intent(desk, work), await desk.rows.one("ready")
    key = f"github.com/{pull.repo_id}#7@{HEAD}:{SUFFIX}"
    assert (row["head_sha"], row["key"], row["generation"]) == (HEAD, key, 3)
    assert row["key_label"] == f"octo-org/now#7@{HEAD}:{SUFFIX}"
    assert (ready["intent_id"], ready["key"], ready["attempts"]) == (work.intent_id, key, 0)
    assert await desk.rows.all("waiting") == []
    assert (await desk.rows.one("change_requests"))["head_sha"] == pull.head_sha


@pytest.mark.guarantee("I7")
async def test_a_change_request_that_nobody_told_of_is_recorded_as_the_forge_has_it(
    desk: Desk,
) -> None:
    work = await headless(desk.rows)
    duty, _ = resolver(desk, FOUND)
    await duty.tick()
    assert (await intent(desk, work))["generation"] == 1
    row = await desk.rows.one("change_requests")
    recorded = {
        **PLACE,
        "tenant": "acme",
        "forge": "github",
        "repo_name": "octo-org/now",
        "url": FOUND.url,
        "base_ref": "main",
        "head_sha": HEAD,
        "generation": 1,
        "state": "open",
        "forge_updated_at": MOMENT,
    }
    assert row == {**row, **recorded}
    head = await desk.rows.one("change_request_heads")
    assert (head["repo_id"], head["generation"], head["head_sha"]) == (4711, 1, HEAD)


@pytest.mark.guarantee("I7")
async def test_nothing_is_granted_before_it_has_a_head(desk: Desk) -> None:
    await headless(desk.rows)
    await desk.move()
    assert await desk.rows.all("ready") == []
    assert await desk.grant() == []


@pytest.mark.guarantee("I7")
@pytest.mark.parametrize(
    ("answer", "reason"), [(CLOSED, "the change request is closed"), (gone(), "It is gone.")]
)
async def test_what_is_closed_or_gone_is_abandoned_with_the_reason(
    desk: Desk, answer: ForgeHead | Exception, reason: str
) -> None:
    work = await headless(desk.rows)
    duty, _ = resolver(desk, answer)
    await duty.tick()
    row = await intent(desk, work)
    assert (row["status"], row["reason"], row["head_sha"]) == ("abandoned", reason, None)
    for table in ("waiting", "ready", "change_requests"):
        assert await desk.rows.all(table) == []


CANNOT_SAY = [
    (ForgeUnavailable(why="status 503", retry_after_ms=7000), 60_000),
    (ForgeUnavailable(why="status 429", retry_after_ms=900_000), 900_000),
    (Internal(error_id="e1"), 60_000),
]
DOES_NOT_OPEN = [
    ConnectionMissing(tenant="acme", forge_instance="github.com"),
    ConnectionDisabled(tenant="acme", forge_instance="github.com"),
    SealingKeyUnknown(key_id="k1"),
    SecretTampered(purpose="connection", owner="github.com"),
]


@pytest.mark.guarantee("I7")
@pytest.mark.parametrize(("answer", "delay_ms"), CANNOT_SAY, ids=lambda each: type(each).__name__)
async def test_what_nobody_can_say_now_is_asked_again_after_the_delay(
    desk: Desk, answer: Exception, delay_ms: int
) -> None:
    work = await headless(desk.rows, attempts=1)
    duty, publisher = resolver(desk, answer, FOUND)
    await duty.tick()
    row = await desk.rows.one("waiting")
    assert (row["attempts"], row["reason"]) == (2, str(answer))
    wait_ms = (row["due_at"] - row["since"]).total_seconds() * 1000
    assert delay_ms <= wait_ms < delay_ms + 30_000
    await duty.tick()
    assert len(publisher.asked) == 1, "not before its time"
    await desk.rows.change("waiting", {"intent_id": work.intent_id}, due_at=from_now(-1))
    await duty.tick()
    assert (await intent(desk, work))["head_sha"] == HEAD


@pytest.mark.guarantee("I7")
@pytest.mark.parametrize("answer", DOES_NOT_OPEN, ids=lambda each: type(each).__name__)
async def test_a_connection_that_does_not_open_is_waited_for_without_an_attempt(
    desk: Desk, answer: Exception
) -> None:
    await headless(desk.rows, attempts=2)
    duty, _ = resolver(desk, answer, retries_max=2, blocked_recheck_ms=300_000)
    await duty.tick()
    row = await desk.rows.one("waiting")
    assert (row["attempts"], row["reason"]) == (2, str(answer))
    wait_ms = (row["due_at"] - row["since"]).total_seconds() * 1000
    assert 300_000 <= wait_ms < 330_000


@pytest.mark.guarantee("I7")
async def test_out_of_attempts_it_is_dead_and_says_why(desk: Desk) -> None:
    work = await headless(desk.rows, attempts=2)
    duty, _ = resolver(desk, ForgeUnavailable(why="status 503"), retries_max=2)
    await duty.tick()
    row = await intent(desk, work)
    assert (row["status"], row["attempts"]) == ("dead", 3)
    assert "status 503" in row["reason"]
    assert re.search(r"\w \(asked 3 times, and 3 are allowed\)$", row["reason"])
    assert await desk.rows.all("waiting") == []


@pytest.mark.guarantee("I7")
async def test_it_is_asked_for_as_long_and_as_often_as_its_queue_says(desk: Desk) -> None:
    work = await headless(desk.rows, attempts=1)
    await desk.put_queue(name=work.queue, retries_max=2, retry_delays_ms=(1_000, 200_000))
    away = ForgeUnavailable(why="status 503")
    duty, _ = resolver(desk, away, away)
    await duty.tick()
    row = await desk.rows.one("waiting")
    wait_ms = (row["due_at"] - row["since"]).total_seconds() * 1000
    assert (row["attempts"], 200_000 <= wait_ms < 230_000) == (2, True)
    due = {"due_at": row["since"]}
    await desk.rows.change("waiting", {"intent_id": work.intent_id}, **due)
    await duty.tick()
    assert (await intent(desk, work))["status"] == "dead"


@pytest.mark.guarantee("I7")
async def test_a_reopening_that_nobody_told_of_is_waited_for(desk: Desk) -> None:
    pull = await desk.rows.change_request(state="closed", abandoned_through=1)
    await headless(desk.rows, pull)
    duty, _ = resolver(desk, FOUND)
    await duty.tick()
    assert "reopening" in (await desk.rows.one("waiting"))["reason"]
    assert await desk.rows.all("ready") == []


@pytest.mark.guarantee("I7")
async def test_a_publisher_that_is_away_costs_no_attempt_and_spoils_no_others_answer(
    desk: Desk,
) -> None:
    await headless(desk.rows, due_in_ms=-2)
    other = await headless(desk.rows, due_in_ms=-1)
    duty, _ = resolver(desk, DatabaseUnavailable(), FOUND)
    with pytest.raises(FencepostError):
        await duty.tick()
    assert (await intent(desk, other))["head_sha"] == HEAD
    row = await desk.rows.one("waiting")
    assert row["attempts"] == 0


@pytest.mark.guarantee("I7")
async def test_one_that_was_settled_meanwhile_is_not_made_ready(desk: Desk) -> None:
    work = await headless(desk.rows)
    await desk.rows.change(
        "intents",
        {"intent_id": work.intent_id},
        status="cancelled",
        settled_at=MOMENT,
    )
    duty, _ = resolver(desk, FOUND)
    await duty.tick()
    assert (await intent(desk, work))["head_sha"] is None
    assert await desk.rows.all("ready") == await desk.rows.all("waiting") == []


@pytest.mark.guarantee("I7")
async def test_a_tick_takes_a_page_and_says_that_there_is_more(desk: Desk) -> None:
    for _ in range(ASKED_AT_ONCE + 1):
        await headless(desk.rows)
    duty, publisher = resolver(desk, FOUND)
    assert await duty.tick()
    assert len(publisher.asked) == ASKED_AT_ONCE
    assert not await duty.tick()
    assert len(await desk.rows.all("ready")) == ASKED_AT_ONCE + 1
    assert len(await desk.rows.all("change_requests")) == 1


@pytest.mark.guarantee("I7", "X7")
async def test_no_transaction_is_open_while_a_forge_is_asked(desk: Desk) -> None:
    await headless(desk.rows)
    states: list[str] = []

    async def ask(_question: Question) -> ForgeHead:
        cursor = await desk.rows.connection.execute(
            "SELECT state FROM pg_stat_activity"
            " WHERE usename = 'fencepost_dispatcher' AND datname = current_database()"
        )
        states.extend(str(row[0]) for row in await cursor.fetchall())
        return FOUND

    await HeadResolver(desk.database, desk.wakeups, ask, desk.settings).tick()
    assert states
    assert set(states) == {"idle"}


@pytest.mark.guarantee("I7")
async def test_two_dispatchers_ask_once_for_one(desk: Desk) -> None:
    await headless(desk.rows)
    asking, answered = asyncio.Event(), asyncio.Event()

    async def slow(_question: Question) -> ForgeHead:
        asking.set()
        await answered.wait()
        return FOUND

    duty = HeadResolver(desk.database, desk.wakeups, slow, desk.settings)
    first = asyncio.create_task(duty.tick())
    await asking.wait()
    second, publisher = resolver(desk, FOUND)
    await second.tick()
    assert publisher.asked == []
    answered.set()
    await first
    assert len(await desk.rows.all("ready")) == 1


@pytest.mark.guarantee("I7")
@pytest.mark.parametrize("answer", [FOUND, CLOSED, gone(), ForgeUnavailable(why="status 503")])
async def test_a_claim_that_another_took_over_changes_nothing(
    desk: Desk, answer: ForgeHead | Exception
) -> None:
    work = await headless(desk.rows, await desk.rows.change_request())

    async def slow(_question: Question) -> ForgeHead:
        await desk.rows.change("waiting", {"intent_id": work.intent_id}, due_at=from_now(60_000))
        if isinstance(answer, Exception):
            raise answer
        return answer

    await HeadResolver(desk.database, desk.wakeups, slow, desk.settings).tick()
    row = await intent(desk, work)
    assert (row["status"], row["head_sha"]) == ("open", None)
    assert (await desk.rows.one("waiting"))["attempts"] == 0
    assert await desk.rows.all("ready") == []

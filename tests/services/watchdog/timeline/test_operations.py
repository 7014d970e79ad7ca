"""Stories read from real rows: exact for one that went well, and never another tenant's."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from fencepost.errors import FieldInvalid

from services.watchdog.settings import WatchdogSettings
from services.watchdog.timeline import store
from services.watchdog.timeline.operations import (
    ByDelivery,
    ByUrl,
    Timeline,
    TimelineOperations,
)
from services.watchdog.timeline.story_rules import Delivery
from shared.database import Database, Transaction
from tests.rows import Rows, from_now
from tests.services.watchdog.timeline.facts import TRACE
from tests.services.watchdog.timeline.stories import MINUTE_MS, delivered, key_of, published_story


def told(timeline: Timeline) -> list[tuple[int, str, str]]:
    """Each event as seconds after the first, its kind and its text."""
    first = timeline.events[0].at
    return [
        (round((event.at - first).total_seconds()), event.kind, event.text)
        for event in timeline.events
    ]


async def test_the_whole_story_of_a_delivery_that_became_a_review(
    timelines: TimelineOperations, rows: Rows
) -> None:
    work = await published_story(rows)
    pull = work.change_request
    assert pull is not None
    [attempt] = await rows.all("publication_attempts")
    publication = f"Publication {attempt['publication_id']} (review)"
    intent = f"intent {work.intent_id}"
    timeline = await timelines.timeline("acme", ByDelivery("d-1"))
    assert told(timeline) == [
        (
            0,
            "delivery.accepted",
            (
                "Delivery d-1 (pull_request opened) came in at endpoint github: accepted, "
                "it made work."
            ),
        ),
        (0, "head.current", f"Head {pull.head_sha[:7]} became current."),
        (
            0,
            "intent.created",
            f"Intent {work.intent_id} was made for container-dispatch on queue reviews.",
        ),
        (1, "lease.granted", f"Attempt 1 of {intent} was leased to worker s-1 (version 2.1)."),
        (10, "checkpoint.flushed", "Checkpoint 1 was stored: phase analysis, 2 bytes, 0 spans."),
        (30, "checkpoint.flushed", "Final checkpoint 2 was stored: 40 KiB, 3 spans."),
        (40, "publication.claimed", f"{publication} was claimed, to be sent once."),
        (
            41,
            "publication.succeeded",
            f"{publication} is on the forge: {pull.url}#pullrequestreview-80",
        ),
        (49, "dispatch.completed", f"The worker completed attempt 1 of {intent}."),
        (50, "intent.succeeded", f"Intent {work.intent_id} succeeded."),
        (
            55,
            "delivery.duplicate",
            (
                "Delivery d-1-again (pull_request opened) came in at endpoint github: a duplicate, "
                "d-1 had made the work."
            ),
        ),
    ]
    assert {event.trace_id for event in timeline.events} == {TRACE}
    assert timeline.title == f"{pull.repo_name}#7"
    assert timeline.standing.startswith("Done at ")
    assert timeline.standing.endswith(
        f"(9 min ago): publication {attempt['publication_id']} (review) is on the forge: "
        f"{pull.url}#pullrequestreview-80"
    )
    assert timeline.next_commands == [f"fencepost timeline {pull.url}"]
    assert not timeline.truncated


async def test_the_duplicate_and_the_address_tell_the_same_story(
    timelines: TimelineOperations, rows: Rows
) -> None:
    work = await published_story(rows)
    pull = work.change_request
    assert pull is not None
    whole = await timelines.timeline("acme", ByDelivery("d-1"))
    for subject in (
        ByDelivery("d-1-again"),
        ByUrl(pull.url),
        ByUrl(pull.url.replace("https://", "http://") + "/files/"),
        ByUrl(pull.url.replace("octo-org", "Octo-Org")),
    ):
        same = await timelines.timeline("acme", subject)
        assert told(same) == told(whole)
        assert same.title == whole.title


async def test_an_address_tells_of_every_head_and_a_delivery_of_its_own(
    timelines: TimelineOperations, rows: Rows
) -> None:
    pull = await rows.change_request(generation=3, head_sha="3" * 40)
    for generation in (1, 2):
        sha = str(generation) * 40
        await rows.insert(
            "change_request_heads",
            tenant="acme",
            forge_instance="github.com",
            repo_id=pull.repo_id,
            number=7,
            generation=generation,
            head_sha=sha,
        )
        delivery = await delivered(rows, pull, delivery_id=f"d-{generation}", key=key_of(pull, sha))
        await rows.intent(
            pull,
            key=key_of(pull, sha),
            head_sha=sha,
            generation=generation,
            delivery_seq=delivery["delivery_seq"],
            status="superseded",
            settled_at=from_now(0),
            reason="a newer head is current",
        )

    def kinds(timeline: Timeline) -> list[str]:
        return sorted(event.kind for event in timeline.events)

    of_one = ["delivery.accepted", "intent.created", "intent.superseded"]
    whole = await timelines.timeline("acme", ByUrl(pull.url))
    assert kinds(whole) == sorted(2 * of_one + 3 * ["head.current"])
    first = await timelines.timeline("acme", ByDelivery("d-1"))
    assert kinds(first) == sorted([*of_one, "head.current", "head.current"])
    generations = [event.ids.get("generation") for event in first.events]
    assert generations.count("3") == 0
    assert "was superseded at" in first.standing


async def test_work_under_way_says_with_whom(timelines: TimelineOperations, rows: Rows) -> None:
    pull = await rows.change_request()
    delivery = await delivered(rows, pull, delivery_id="d-1")
    work = await rows.intent(pull, delivery_seq=delivery["delivery_seq"])
    await rows.insert(
        "sessions",
        session_id="s-7",
        tenant="acme",
        key_id="k",
        queues=["reviews"],
        replica="r",
        state="detached",
    )
    await rows.lease(work, holder="s-7", session_id="s-7", attempts=2)
    second = await rows.intent(pull)
    await rows.waiting(second, waits_on="lease", reason="another holder is running")
    await rows.hold(repo_id=pull.repo_id, forge_instance="github.com", reason="incident")
    timeline = await timelines.timeline("acme", ByDelivery("d-1"))
    assert (
        f"Intent {work.intent_id} (container-dispatch) has been with worker s-7 since"
        in timeline.standing
    )
    assert "whose stream is lost" in timeline.standing
    assert f"Intent {second.intent_id} (container-dispatch) has waited since" in timeline.standing
    assert timeline.standing.endswith("incident.")
    assert "lease.granted" in [event.kind for event in timeline.events]
    assert "fencepost status" in timeline.next_commands


async def test_ready_work_counts_the_workers_that_could_take_it(
    timelines: TimelineOperations, rows: Rows
) -> None:
    pull = await rows.change_request()
    await rows.ready(await rows.intent(pull), entered_at=from_now(-5 * MINUTE_MS))
    wanted: dict[str, Any] = {
        "tenant": "acme",
        "queues": ["a", "reviews"],
        "state": "open",
        "draining": False,
    }
    others: list[dict[str, Any]] = [
        {"tenant": "globex"},
        {"queues": ["a"]},
        {"state": "detached"},
        {"draining": True},
    ]
    for number, values in enumerate([wanted, *others]):
        await rows.insert(
            "sessions", session_id=f"s-{number}", key_id="k", replica="r", **(wanted | values)
        )
    timeline = await timelines.timeline("acme", ByUrl(pull.url))
    assert timeline.standing.endswith("(5 min ago): 1 worker could take it from queue reviews.")


@pytest.mark.parametrize(
    ("values", "told_of"),
    [
        ({}, True),
        ({"tenant": "acme", "action": "container-dispatch"}, True),
        ({"tenant": "globex"}, False),
        ({"action": "another"}, False),
        ({"forge_instance": "github.com", "repo_id": 1}, False),
        ({"released_by": "ops", "released_at": from_now(0)}, True),
        ({"released_by": "ops", "released_at": from_now(-MINUTE_MS)}, False),
    ],
)
async def test_holds_are_told_where_they_covered_the_work(
    timelines: TimelineOperations, rows: Rows, values: dict[str, object], told_of: bool
) -> None:
    pull = await rows.change_request()
    await rows.ready(await rows.intent(pull))
    await rows.hold(placed_at=from_now(-2 * MINUTE_MS), **values)
    timeline = await timelines.timeline("acme", ByUrl(pull.url))
    assert ("hold.placed" in [event.kind for event in timeline.events]) is told_of
    for event in timeline.events:
        assert "key_id" not in event.ids or "tenant" in values


async def test_a_delivery_without_a_change_request_is_told_alone(
    timelines: TimelineOperations, rows: Rows
) -> None:
    await rows.delivery(
        delivery_id="d-1", event="ping", event_action="", outcome="ignored", reason="ping"
    )
    timeline = await timelines.timeline("acme", ByDelivery("d-1"))
    assert timeline.title == "delivery d-1"
    assert [event.kind for event in timeline.events] == ["delivery.ignored"]
    assert timeline.standing.endswith("was ignored: the forge only asked whether somebody listens.")
    assert timeline.next_commands == []


@pytest.mark.guarantee("X4")
async def test_an_address_that_is_none_is_refused_by_name(timelines: TimelineOperations) -> None:
    with pytest.raises(FieldInvalid, match="pull or merge request") as error:
        await timelines.timeline("acme", ByUrl("urn:isbn:0451450523"))
    assert error.value.violations[0][0] == "change_request_url"


async def test_of_a_long_story_the_oldest_events_are_left_out(
    database: Database, settings: WatchdogSettings, rows: Rows
) -> None:
    pull = await rows.change_request()
    for number in range(30):
        await delivered(
            rows,
            pull,
            delivery_id=f"d-{number}",
            received_at=from_now((number - 40) * MINUTE_MS),
            outcome="duplicate",
        )
    short = TimelineOperations(database, settings.model_copy(update={"timeline_events_max": 10}))
    timeline = await short.timeline("acme", ByUrl(pull.url))
    assert timeline.truncated
    assert [event.ids.get("delivery_id") for event in timeline.events[:-1]] == [
        f"d-{number}" for number in range(21, 30)
    ]
    whole = TimelineOperations(database, settings.model_copy(update={"timeline_events_max": 31}))
    timeline = await whole.timeline("acme", ByUrl(pull.url))
    assert not timeline.truncated
    assert len(timeline.events) == 31


async def test_a_repository_made_anew_at_an_old_address_tells_its_own_story(
    timelines: TimelineOperations, rows: Rows
) -> None:
    url = "https://github.com/a/b/pull/7"
    await rows.change_request(url=url, updated_at=from_now(-MINUTE_MS), repo_name="old/name")
    await rows.change_request(url=url, repo_name="new/name")
    assert (await timelines.timeline("acme", ByUrl(url))).title == "new/name#7"


async def test_a_story_is_of_one_moment(database: Database, rows: Rows) -> None:
    async def read_late(tx: Transaction) -> list[Delivery]:
        await store.in_one_snapshot(tx)
        await rows.delivery(delivery_id="d-1")
        return await store.deliveries_by_id(
            tx, Delivery, tenant="acme", delivery_id="d-1", limit=10
        )

    assert await database.read(read_late) == []


async def test_times_are_the_databases(timelines: TimelineOperations, rows: Rows) -> None:
    row = await rows.delivery(delivery_id="d-1")
    [event] = (await timelines.timeline("acme", ByDelivery("d-1"))).events
    received_at: datetime = row["received_at"]
    assert event.at == received_at
    assert event.at.utcoffset() == timedelta(0)

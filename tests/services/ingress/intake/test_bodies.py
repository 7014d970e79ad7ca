"""The same body under another delivery id, where nothing proves ids: work is made once (I12)."""

from typing import Any

import pytest
from psycopg import sql

from services.ingress.submissions import Match, Taken
from shared.schema.states import DeliveryOutcome
from tests.services.ingress.desk import Desk
from tests.services.ingress.intake.asking import Asking, command, rerun
from tests.services.ingress.pulls import A, B, pull, submission

ACCEPTED, DUPLICATE, IGNORED = (
    DeliveryOutcome.ACCEPTED,
    DeliveryOutcome.DUPLICATE,
    DeliveryOutcome.IGNORED,
)
DOOR: dict[str, Any] = {"dedupes_by_body": True}


@pytest.mark.guarantee("I12")
async def test_a_body_that_made_work_is_a_duplicate_under_another_id(desk: Desk) -> None:
    first = await desk.take("d-1", pull(), **DOOR)
    second = await desk.take("d-2", pull(), **DOOR)
    assert second == Taken(
        outcome=DUPLICATE,
        matched=Match.BODY,
        first_delivery_id="d-1",
        intent_ids=first.intent_ids,
        reason="",
    )
    stored = await desk.rows.one("deliveries", delivery_id="d-2")
    assert (stored["outcome"], stored["matched_delivery_id"]) == ("duplicate", "d-1")
    again = await desk.take("d-2", pull(), **DOOR)
    assert (again.matched, again.first_delivery_id) == (Match.DELIVERY_ID, "d-1")
    assert again.intent_ids == first.intent_ids


@pytest.mark.guarantee("I12")
async def test_it_tells_nothing_of_its_change_request(desk: Desk) -> None:
    """A replay of an old push, which starts from what is recorded by now, supersedes nothing."""
    push = pull("synchronize", before=A, head_sha=B, at=1)
    await desk.take("d-1", pull(head_sha=A), **DOOR)
    await desk.take("d-2", push, **DOOR)
    await desk.take("d-3", pull("synchronize", before=B, head_sha=A, at=1), **DOOR)
    replayed = await desk.take("d-4", push, **DOOR)
    assert (replayed.outcome, replayed.matched) == (DUPLICATE, Match.BODY)
    assert (await desk.rows.one("change_requests"))["head_sha"] == A


@pytest.mark.guarantee("I12")
@pytest.mark.parametrize(
    ("name", "changes", "matched"),
    [
        ("github", {}, Match.BODY),
        ("github", {"dedupes_by_body": False}, Match.KEY),
        ("github", {"event": "pull_request_target"}, Match.NONE),
        ("other", {}, Match.KEY),
    ],
)
async def test_trusted_callers_other_endpoints_and_other_events_are_exempt(
    desk: Desk, name: str, changes: dict[str, object], matched: Match
) -> None:
    await desk.take("d-1", pull(), **DOOR)
    asking = Asking.at(desk, name=name, routes=desk.endpoint.routes)
    second = await asking.tell("d-2", pull(), **{**DOOR, **changes})
    assert second.matched is matched


@pytest.mark.guarantee("I12")
@pytest.mark.parametrize("in_one_list", [True, False])
async def test_a_body_that_made_no_work_does_not_count(desk: Desk, in_one_list: bool) -> None:
    bodies = [("d-1", pull(draft=True)), ("d-2", pull(draft=True)), ("d-3", pull(at=1))] * 2
    items = [
        submission(desk.endpoint, f"{delivery_id}-{n}", body, **DOOR)
        for n, (delivery_id, body) in enumerate(bodies)
    ]
    lists = [items] if in_one_list else [[item] for item in items]
    outcomes = [each for part in lists for each in await desk.intake.submit(part)]
    said = [(each.outcome, each.matched) for each in outcomes if isinstance(each, Taken)]
    assert said == [
        (IGNORED, Match.NONE),
        (IGNORED, Match.NONE),
        (ACCEPTED, Match.NONE),
        (IGNORED, Match.NONE),
        (IGNORED, Match.NONE),
        (DUPLICATE, Match.BODY),
    ]
    assert len(await desk.rows.all("body_markers")) == 1


@pytest.mark.guarantee("I12")
async def test_after_its_time_a_body_is_new_and_the_key_still_dedupes(desk: Desk) -> None:
    await desk.take("d-1", pull(), **DOOR)
    past = sql.SQL("clock_timestamp() - interval '1 second'")
    await desk.rows.change("body_markers", {"delivery_id": "d-1"}, expires_at=past)
    assert (await desk.take("d-2", pull(), **DOOR)).matched is Match.KEY
    assert await desk.rows.all("body_markers") == []


@pytest.mark.guarantee("I12", "I13")
async def test_a_persons_rerun_is_deliberate_whatever_its_body(desk: Desk) -> None:
    asking = Asking.at(desk)
    for wish, matched in ((rerun(number=2), Match.NONE), (command(), Match.BODY)):
        items = [asking.item(f"{wish.kind}-{n}", wish, body=b"same", **DOOR) for n in (1, 2)]
        _, second = await asking.submit(*items)
        assert second.matched is matched

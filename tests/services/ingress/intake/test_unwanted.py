"""What a newer head or a closing makes unwanted ends with it, and nothing else does."""

from typing import Any

import pytest

from tests.rows import ChangeRequest, Work
from tests.services.ingress.desk import Desk
from tests.services.ingress.pulls import NUMBER, REPO_ID, TENANT, A, B, C, pull

PUSH = pull("synchronize", before=A, head_sha=B, at=1)
CLOSE = pull("closed", at=1)
NEWER, CLOSED = "a newer head is current", "the change request is closed"


async def change_request(desk: Desk, **values: Any) -> ChangeRequest:
    """The pull request of the bodies, at its first head."""
    place = {"tenant": TENANT, "repo_id": REPO_ID, "number": NUMBER, "head_sha": A}
    return await desk.rows.change_request(**{**place, **values})


async def status(desk: Desk, work: Work) -> tuple[str, str, int]:
    row = await desk.rows.one("intents", intent_id=work.intent_id)
    return row["status"], row["reason"], row["attempts"]


@pytest.mark.guarantee("I9")
@pytest.mark.parametrize(
    ("body", "state", "reason"), [(PUSH, "superseded", NEWER), (CLOSE, "abandoned", CLOSED)]
)
async def test_what_runs_and_what_waits_ends(
    desk: Desk, body: bytes, state: str, reason: str
) -> None:
    pr = await change_request(desk)
    running = await desk.rows.lease(await desk.rows.intent(pr, action="a"), attempts=3)
    ready, waiting = [await desk.rows.intent(pr, action=action) for action in "bc"]
    await desk.rows.ready(ready, attempts=1)
    await desk.rows.waiting(waiting, attempts=2)
    await desk.take("d-1", body)
    assert await status(desk, running) == (state, reason, 3)
    assert await status(desk, ready) == (state, reason, 1)
    assert await status(desk, waiting) == (state, reason, 2)
    lease = await desk.rows.one("leases", action="a")
    assert (lease["state"], lease["epoch"]) == (state, 1)
    dispatch = await desk.rows.one("dispatches")
    assert (dispatch["outcome"], dispatch["reason"]) == ("displaced", reason)
    assert (dispatch["intent_id"], dispatch["attempt"]) == (running.intent_id, 3)
    placed = {row["action"] for table in ("ready", "waiting") for row in await desk.rows.all(table)}
    assert {"b", "c"} <= placed, "the claim and the mover take their own rows away"


@pytest.mark.guarantee("I9")
@pytest.mark.parametrize("body", [PUSH, CLOSE])
async def test_what_has_ended_and_what_others_do_stays(desk: Desk, body: bytes) -> None:
    pr = await change_request(desk)
    others = [
        await desk.rows.work(await change_request(desk, **changes))
        for changes in (
            {"number": NUMBER + 1},
            {"repo_id": REPO_ID + 1},
            {"forge_instance": "git.example.org"},
            {"tenant": "other"},
        )
    ]
    done = await desk.rows.intent(pr, status="succeeded", settled_at="2026-01-01T00:00:00Z")
    await desk.rows.lease(done, state="succeeded", settled_at="2026-01-01T00:00:00Z")
    before = [await desk.rows.all(table) for table in ("leases", "dispatches")]
    await desk.take("d-1", body)
    assert [await desk.rows.all(table) for table in ("leases", "dispatches")] == before
    for work in others:
        assert (await status(desk, work))[0] == "open"
    assert (await status(desk, done))[0] == "succeeded"


@pytest.mark.guarantee("I9")
@pytest.mark.parametrize(
    ("suffix", "after_push"), [("manual-9", "open"), ("rerun-0", "open"), ("nightly", "superseded")]
)
async def test_what_a_person_asked_for_outlives_a_push_and_ends_with_the_change_request(
    desk: Desk, suffix: str, after_push: str
) -> None:
    pr = await change_request(desk)
    running = await desk.rows.lease(await desk.rows.intent(pr, suffix=suffix))
    await desk.take("d-1", PUSH)
    assert (await status(desk, running))[0] == after_push
    await desk.take("d-2", pull("closed", head_sha=B, at=2))
    assert (await status(desk, running))[0] == ("abandoned" if after_push == "open" else after_push)


@pytest.mark.guarantee("I7", "I9")
async def test_what_waits_for_its_head_ends_only_while_the_change_request_is_closed(
    desk: Desk,
) -> None:
    pr = await change_request(desk)
    pending: dict[str, Any] = {"suffix": "manual-9", "head_sha": None, "generation": 0}
    first = await desk.rows.intent(pr, **pending)
    await desk.take("d-1", PUSH)
    assert (await status(desk, first))[0] == "open"
    await desk.take("d-2", pull("closed", head_sha=B, at=2))
    assert (await status(desk, first))[0] == "abandoned"
    await desk.take("d-3", pull("reopened", head_sha=B, at=3))
    second = await desk.rows.intent(pr, **pending)
    await desk.take("d-4", pull("synchronize", before=B, head_sha=C, at=4))
    assert (await status(desk, second))[0] == "open"


@pytest.mark.guarantee("I9")
async def test_when_it_is_unclear_nothing_is_superseded(desk: Desk) -> None:
    await desk.take("d-1", pull(head_sha=A))
    await desk.take("d-2", pull("ready_for_review", head_sha=C))
    await desk.take("d-3", pull("closed", head_sha=C))
    statuses = [row["status"] for row in await desk.rows.all("intents")]
    assert statuses == ["open", "open"]


@pytest.mark.guarantee("I9")
async def test_a_head_that_is_forced_back_is_worked_on_again(desk: Desk) -> None:
    await desk.take("d-1", pull(head_sha=A))
    await desk.take("d-2", pull("synchronize", before=A, head_sha=B, at=1))
    await desk.take("d-3", pull("synchronize", before=B, head_sha=A, at=2))
    made = await desk.rows.all("intents")
    assert [(row["head_sha"], row["generation"], row["status"]) for row in made] == [
        (A, 1, "superseded"),
        (B, 2, "superseded"),
        (A, 3, "open"),
    ]
    change_request = await desk.rows.one("change_requests")
    assert (change_request["superseded_through"], change_request["abandoned_through"]) == (2, 0)


@pytest.mark.guarantee("I9")
async def test_what_is_reopened_is_worked_on_again(desk: Desk) -> None:
    await desk.take("d-1", pull())
    await desk.take("d-2", pull("closed", at=1))
    change_request = await desk.rows.one("change_requests")
    assert (change_request["superseded_through"], change_request["abandoned_through"]) == (0, 1)
    reopened = await desk.take("d-3", pull("reopened", at=2))
    made = [(row["generation"], row["status"]) for row in await desk.rows.all("intents")]
    assert made == [(1, "abandoned"), (2, "open")]
    assert len(reopened.intent_ids) == 1


@pytest.mark.guarantee("I9")
async def test_another_base_is_recorded_and_supersedes_nothing(desk: Desk) -> None:
    first = await desk.take("d-1", pull())
    retargeted = pull("ready_for_review", at=1).replace(b'"ref": "master"', b'"ref": "release"')
    again = await desk.take("d-2", retargeted)
    assert again.intent_ids == first.intent_ids
    assert (await desk.rows.one("change_requests"))["base_ref"] == "release"
    assert (await desk.rows.one("intents"))["status"] == "open"

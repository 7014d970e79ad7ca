"""The end of a merge group: its work ends, that of others goes on, and nothing begins after it."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from fencepost.errors import LeaseLost

from services.ingress.intake.purge_loop import PurgeLoop
from shared.database import Database
from shared.schema.grants import Service
from tests.rows import ChangeRequest, Work, from_now
from tests.services.ingress.desk import Desk
from tests.services.ingress.intake.asking import Asking
from tests.services.ingress.published import REPO_ID, group_document
from tests.services.ingress.pulls import TENANT, A, B, C, pull, submission
from tests.services.publisher.commands import claim, claimed, publisher_settings, review_of

GROUP = {"tenant": TENANT, "repo_id": REPO_ID, "number": 7}
PULL = ChangeRequest(
    tenant=TENANT,
    forge_instance="github.com",
    repo_id=REPO_ID,
    repo_name="octo/widgets",
    number=7,
    head_sha=A,
    generation=1,
    url="",
)
"""As the bodies tell of it."""


@pytest.fixture
async def publisher(service_url: Callable[[Service], str]) -> AsyncIterator[Database]:
    """The database as the publisher's role sees it."""
    settings = publisher_settings(service_url("publisher"))
    async with Database.create(settings, application_name="publisher") as database:
        yield database


def body(action: str, head_sha: str = B, named: str = "pr-7") -> bytes:
    return json.dumps(group_document(action, named, head_sha)).encode()


async def tell(desk: Desk, delivery_id: str, action: str, **said: Any) -> tuple[str, int]:
    """Why a delivery of a merge group made no work, and how much it made or met."""
    sent = body(action, **said)
    taken = await Asking.at(desk).tell(delivery_id, sent, event="merge_group")
    return taken.reason, len(taken.intent_ids)


async def placed(desk: Desk, *, group_sha: str = B, **changes: Any) -> ChangeRequest:
    """A pull request as the work for a group in which it is sees it."""
    pr = await desk.rows.change_request(**{**GROUP, "head_sha": A, **changes})
    return replace(pr, head_sha=group_sha)


async def work(desk: Desk, pr: ChangeRequest, **values: Any) -> Work:
    """Work that a delivery made for the group."""
    delivery = await desk.rows.delivery(tenant=pr.tenant, event="merge_group")
    made = {"suffix": "merge-group", "delivery_seq": delivery["delivery_seq"], **values}
    return await desk.rows.intent(pr, **made)


async def status(desk: Desk, of: Work) -> tuple[str, str, int]:
    row = await desk.rows.one("intents", intent_id=of.intent_id)
    return row["status"], row["reason"], row["attempts"]


@pytest.mark.guarantee("I9")
@pytest.mark.parametrize("named", ["pr-7", "branch"])
async def test_what_runs_and_what_waits_for_a_group_ends_with_it(desk: Desk, named: str) -> None:
    assert await tell(desk, "d-0", "checks_requested") == ("", 1)
    pr = await placed(desk)
    running = await desk.rows.lease(await work(desk, pr, action="a"), attempts=3)
    ready, waiting = [await work(desk, pr, action=action) for action in "bc"]
    await desk.rows.ready(ready, attempts=1)
    await desk.rows.waiting(waiting, attempts=2)
    assert await tell(desk, "d-1", "destroyed", named=named) == ("group-gone", 0)
    why = "the merge group is gone"
    for each, attempts in ((running, 3), (ready, 1), (waiting, 2)):
        assert await status(desk, each) == ("abandoned", why, attempts)
    lease = await desk.rows.one("leases", action="a")
    assert (lease["state"], lease["epoch"]) == ("abandoned", 1)
    dispatch = await desk.rows.one("dispatches")
    assert (dispatch["outcome"], dispatch["reason"]) == ("displaced", why)
    assert {row["status"] for row in await desk.rows.all("intents")} == {"abandoned"}


@pytest.mark.guarantee("I9", "X8")
async def test_what_others_do_stays(desk: Desk) -> None:
    places = [
        await placed(desk, **changes)
        for changes in (
            {"group_sha": A},
            {"number": 8},
            {"repo_id": REPO_ID + 1},
            {"forge_instance": "git.example.org"},
            {"tenant": "other"},
        )
    ]
    others = [await desk.rows.lease(await work(desk, place)) for place in places]
    pr = replace(places[0], head_sha=B)
    ordinary = await desk.rows.lease(await desk.rows.intent(pr, action="a"))
    asked = await desk.rows.lease(await desk.rows.intent(pr, suffix="manual-1"))
    await tell(desk, "d-1", "destroyed")
    for each in (*others, ordinary, asked):
        assert (await status(desk, each))[0] == "open"
    assert {row["state"] for row in await desk.rows.all("leases")} == {"running"}


@pytest.mark.guarantee("I9")
async def test_a_list_in_which_a_group_ends_makes_no_work_for_it(desk: Desk) -> None:
    asking = Asking.at(desk)
    for first, second in (("checks_requested", "destroyed"), ("destroyed", "checks_requested")):
        submissions = [
            submission(asking.endpoint, f"{first}-{action}", body(action), event="merge_group")
            for action in (first, second)
        ]
        outcomes = await desk.intake.submit(submissions)
        assert [getattr(each, "reason", None) for each in outcomes] == ["group-gone"] * 2
    assert await desk.rows.all("intents") == []


@pytest.mark.guarantee("I1", "I9")
async def test_the_end_may_be_told_again(desk: Desk) -> None:
    await tell(desk, "d-0", "checks_requested")
    for delivery_id in ("d-1", "d-1", "d-2"):
        assert (await tell(desk, delivery_id, "destroyed"))[0] == "group-gone"
    assert [row["status"] for row in await desk.rows.all("intents")] == ["abandoned"]
    group = await desk.rows.one("merge_groups")
    assert (group["head_sha"], group["numbers"], group["gone_at"] is None) == (B, [7], False)


@pytest.mark.guarantee("L3", "P2b")
async def test_a_review_under_a_lease_of_a_group_that_is_gone_is_refused(
    desk: Desk, publisher: Database
) -> None:
    pr = await placed(desk)
    reviews = await desk.rows.run(await desk.rows.lease(await work(desk, pr, action="a")))
    late = await desk.rows.run(await desk.rows.lease(await work(desk, pr, action="b")))
    await claimed(publisher, review_of(reviews))
    await tell(desk, "d-1", "destroyed")
    for command in (review_of(reviews, ordinal=1), review_of(late)):
        with pytest.raises(LeaseLost):
            await claim(publisher, command)
    assert len(await desk.rows.all("publication_attempts")) == 1


@pytest.mark.guarantee("I9")
async def test_a_push_and_a_closing_are_told_apart_for_a_group(desk: Desk) -> None:
    await desk.take("d-1", pull(number=7, head_sha=A))
    assert await tell(desk, "d-2", "checks_requested") == ("", 1)
    pr = replace(PULL, head_sha=B)
    running = await desk.rows.lease(await work(desk, pr, action="a"))
    await desk.take("d-3", pull("synchronize", number=7, before=A, head_sha=C, at=1))
    assert {row["status"] for row in await desk.rows.all("intents", head_sha=B)} == {"open"}
    assert (await desk.rows.one("leases"))["state"] == "running"
    await desk.take("d-4", pull("closed", number=7, head_sha=C, at=2))
    ended = {(row["status"], row["reason"]) for row in await desk.rows.all("intents", head_sha=B)}
    assert ended == {("abandoned", "the change request is closed")}
    assert (await desk.rows.one("leases"))["state"] == "abandoned"
    assert (await status(desk, running))[2] == 1


@pytest.mark.guarantee("I3")
async def test_a_group_is_forgotten_with_its_deliveries(desk: Desk) -> None:
    await tell(desk, "d-1", "destroyed")
    await tell(desk, "d-2", "destroyed", head_sha=A)
    await desk.rows.change("merge_groups", {"head_sha": B}, expires_at=from_now(-1))
    assert not await PurgeLoop(desk.intake.database).tick()
    assert [row["head_sha"] for row in await desk.rows.all("merge_groups")] == [A]


@pytest.mark.guarantee("I8")
async def test_an_endpoint_that_wants_no_groups_ends_none(desk: Desk) -> None:
    await tell(desk, "d-0", "checks_requested")
    elsewhere = Asking.at(desk, wanted_events=frozenset({"push"}))
    told = await elsewhere.tell("d-1", body("destroyed"), event="merge_group")
    assert told.reason == "group-gone"
    assert [row["status"] for row in await desk.rows.all("intents")] == ["open"]

"""The end of a merge group against what is asked and granted for it: each race is forced (I9)."""

import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from services.ingress.submissions import Taken
from shared.schema.grants import Service
from tests.races.forcing import Blocker, blocking, forced
from tests.services.dispatcher import desk as dispatcher
from tests.services.ingress import desk as ingress
from tests.services.ingress.intake.asking import FIX, Asking
from tests.services.ingress.published import REPO_ID, group_document
from tests.services.ingress.pulls import TENANT, B, settings_of

MAKE = """
    INSERT INTO fencepost.merge_groups (tenant, forge_instance, repo_id, head_sha, numbers,
        expires_at)
    VALUES (%(tenant)s, 'github.com', %(repo_id)s, %(head_sha)s, '{}', clock_timestamp())
"""


@pytest.fixture
async def intake(
    owner_url: str, service_url: Callable[[Service], str]
) -> AsyncIterator[ingress.Desk]:
    async with ingress.opened(owner_url, settings_of(service_url("ingress"))) as desk:
        yield desk


@pytest.fixture
async def desk(
    owner_url: str, service_url: Callable[[Service], str]
) -> AsyncIterator[dispatcher.Desk]:
    async with dispatcher.opened(owner_url, service_url("dispatcher")) as desk:
        yield desk


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


def told(desk: ingress.Desk, action: str) -> Coroutine[Any, Any, Taken]:
    """A delivery of the group."""
    body = json.dumps(group_document(action, "pr-7", B)).encode()
    return Asking.at(desk).tell(action, body, event="merge_group")


@pytest.mark.guarantee("I9")
@pytest.mark.parametrize("ended_first", [True, False], ids=["end first", "checks first"])
async def test_a_group_that_ends_while_its_checks_are_wanted_leaves_no_work(
    intake: ingress.Desk, blocker: Blocker, ended_first: bool
) -> None:
    contenders = [told(intake, "destroyed"), told(intake, "checks_requested")]
    await blocker.hold(MAKE, tenant=TENANT, repo_id=REPO_ID, head_sha=B)
    outcomes = await forced(
        blocker,
        contenders if ended_first else contenders[::-1],
        on="merge_groups",
        release=blocker.roll_back,
    )
    assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert (await intake.rows.one("merge_groups"))["gone_at"] is not None
    assert {row["status"] for row in await intake.rows.all("intents")} <= {"abandoned"}


@pytest.mark.guarantee("I9", "L1")
@pytest.mark.parametrize("ended_first", [True, False], ids=["end first", "grant first"])
async def test_a_group_that_ends_while_its_work_is_granted_leaves_nothing_running(
    intake: ingress.Desk, desk: dispatcher.Desk, blocker: Blocker, ended_first: bool
) -> None:
    await told(intake, "checks_requested")
    stream = await desk.stream(queues=[FIX.queue])
    await blocker.hold("SELECT 1 FROM fencepost.merge_groups FOR UPDATE")
    contenders = [told(intake, "destroyed"), desk.grant(stream, queues=[FIX.queue])]
    outcomes = await forced(
        blocker,
        contenders if ended_first else contenders[::-1],
        on="merge_groups",
        release=blocker.roll_back,
    )
    assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert [row["status"] for row in await intake.rows.all("intents")] == ["abandoned"]
    assert await intake.rows.all("leases", state="running") == []


@pytest.mark.guarantee("I9", "L1")
async def test_work_that_was_not_ended_with_its_group_is_not_granted(
    intake: ingress.Desk, desk: dispatcher.Desk
) -> None:
    await told(intake, "checks_requested")
    await told(intake, "destroyed")
    [dead] = await intake.rows.all("intents")
    where = {"intent_id": dead["intent_id"]}
    await intake.rows.change("intents", where, status="open", settled_at=None)
    stream = await desk.stream(queues=[FIX.queue])
    assert await desk.grant(stream, queues=[FIX.queue]) == []
    ended = await intake.rows.one("intents")
    assert (ended["status"], ended["reason"]) == ("abandoned", "the merge group is gone")

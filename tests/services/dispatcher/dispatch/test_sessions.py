"""Sessions of workers: opened, taken up, heard, detached, ended; and what they hold meanwhile."""

from typing import Any

import pytest
from fencepost.errors import RequestIdReused, ResourceNotFound

from services.dispatcher.dispatch.operations import stream_of
from services.dispatcher.dispatch.sessions_store import NewSession
from tests.rows import from_now
from tests.services.dispatcher.desk import LEASE_MS, Desk, new_session


async def opened(desk: Desk, **changes: Any) -> NewSession:
    session = new_session(**changes)
    assert await desk.dispatching.open_session(session, resume=False) == []
    return session


async def state(desk: Desk, session: NewSession) -> str:
    row = await desk.rows.one("sessions", session_id=session.session_id)
    return str(row["state"])


def again(session: NewSession, **changes: Any) -> NewSession:
    """The same worker on a new stream."""
    return new_session(session_id=session.session_id, **changes)


async def test_a_session_is_stored_as_its_worker_said(desk: Desk) -> None:
    session = await opened(desk, queues=["b", "a"], version="2", labels={"zone": "x"})
    row = await desk.rows.one("sessions")
    assert row == {
        **row,
        "session_id": session.session_id,
        "tenant": "acme",
        "key_id": "worker-key",
        "queues": ["b", "a"],
        "version": "2",
        "labels": {"zone": "x"},
        "replica": session.place,
        "state": "open",
        "draining": False,
        "ended_at": None,
    }


@pytest.mark.guarantee("X6")
async def test_a_hello_whose_welcome_was_lost_may_be_said_again(desk: Desk) -> None:
    session = await opened(desk)
    await desk.dispatching.detach_session(stream_of(session))
    repeated = again(session)
    await desk.dispatching.open_session(repeated, resume=False)
    row = await desk.rows.one("sessions")
    assert (row["state"], row["replica"]) == ("open", repeated.place)


@pytest.mark.parametrize(
    "other", [{"tenant": "theirs"}, {"key_id": "another-key"}], ids=["tenant", "key"]
)
async def test_anothers_session_id_cannot_be_taken(desk: Desk, other: dict[str, Any]) -> None:
    session = await opened(desk)
    before = await desk.rows.all("sessions")
    with pytest.raises(RequestIdReused):
        await desk.dispatching.open_session(again(session, **other), resume=False)
    assert await desk.rows.all("sessions") == before


@pytest.mark.parametrize("detached", [True, False])
async def test_a_session_is_taken_up_with_all_that_it_holds(desk: Desk, detached: bool) -> None:
    session = await opened(desk)
    works = [await desk.ready() for _ in range(2)]
    granted = await desk.grant(stream_of(session))
    if detached:
        await desk.dispatching.detach_session(stream_of(session))
    await desk.rows.change("leases", {"key": works[0].key}, claimable_at=from_now(60_000))
    moved = again(session, version="2")
    held = await desk.dispatching.open_session(moved, resume=True)
    assert [(grant.key, grant.epoch, grant.attempt) for grant in held] == [
        (grant.key, grant.epoch, grant.attempt) for grant in granted
    ]
    assert [grant.load for grant in held] == [grant.load for grant in granted]
    assert 50_000 < held[0].lease_ms <= 60_000
    assert 60_000 < held[1].lease_ms <= LEASE_MS
    row = await desk.rows.one("sessions")
    assert (row["state"], row["replica"], row["version"]) == ("open", moved.place, "2")


async def test_what_was_lost_meanwhile_is_not_held(desk: Desk) -> None:
    session = await opened(desk)
    lost, kept = await desk.ready(), await desk.ready()
    await desk.grant(stream_of(session))
    await desk.rows.change("leases", {"key": lost.key}, claimable_at=from_now(-1))
    await desk.expire()
    held = await desk.dispatching.open_session(again(session), resume=True)
    assert [grant.key for grant in held] == [kept.key]


@pytest.mark.guarantee("X8")
async def test_there_is_nothing_to_take_up_in_another_tenant_or_after_the_end(desk: Desk) -> None:
    session = await opened(desk)
    with pytest.raises(ResourceNotFound):
        await desk.dispatching.open_session(again(session, tenant="theirs"), resume=True)
    with pytest.raises(ResourceNotFound):
        await desk.dispatching.open_session(new_session(), resume=True)
    assert await state(desk, session) == "open"
    await desk.dispatching.end_session(stream_of(session))
    with pytest.raises(ResourceNotFound):
        await desk.dispatching.open_session(again(session), resume=True)
    with pytest.raises(RequestIdReused):
        await desk.dispatching.open_session(again(session), resume=False)


async def test_a_sign_of_life_is_recorded(desk: Desk) -> None:
    session = await opened(desk)
    before = await desk.rows.one("sessions")
    await desk.dispatching.heard(stream_of(session), draining=True)
    after = await desk.rows.one("sessions")
    assert after["heard_at"] > before["heard_at"]
    assert after["draining"]


async def test_the_stream_before_says_and_closes_nothing_any_more(desk: Desk) -> None:
    session = await opened(desk)
    moved = again(session)
    await desk.dispatching.open_session(moved, resume=True)
    with pytest.raises(ResourceNotFound):
        await desk.dispatching.heard(stream_of(session), draining=False)
    await desk.dispatching.detach_session(stream_of(session))
    await desk.dispatching.end_session(stream_of(session))
    assert await state(desk, session) == "open"
    await desk.dispatching.heard(stream_of(moved), draining=False)


async def test_a_lost_stream_leaves_the_leases_as_they_are(desk: Desk) -> None:
    session = await opened(desk)
    work = await desk.ready()
    await desk.grant(stream_of(session))
    before = await desk.lease(work)
    await desk.dispatching.detach_session(stream_of(session))
    assert await state(desk, session) == "detached"
    assert await desk.lease(work) == before


async def test_an_ended_session_leaves_a_grace_to_what_it_holds(desk: Desk) -> None:
    session, other = await opened(desk), await opened(desk)
    long, short = await desk.ready(), await desk.ready()
    await desk.grant(stream_of(session))
    theirs = await desk.ready()
    await desk.grant(stream_of(other))
    await desk.rows.change("leases", {"key": short.key}, claimable_at=from_now(500))
    before = {work.key: await desk.lease(work) for work in (short, theirs)}
    await desk.dispatching.end_session(stream_of(session))
    assert await state(desk, session) == "ended"
    ended_at = (await desk.rows.one("sessions", session_id=session.session_id))["ended_at"]
    left_s = ((await desk.lease(long))["claimable_at"] - ended_at).total_seconds()
    assert left_s == pytest.approx(desk.settings.session_grace_ms / 1000, abs=1)
    assert {work.key: await desk.lease(work) for work in (short, theirs)} == before

"""Flushes: all or nothing, once a flush id, each on the latest version, by the holder alone."""

import dataclasses
import uuid
from typing import Any

import pytest
from fencepost.errors import CheckpointStale, LeaseLost, RequestIdReused
from psycopg import errors, sql

from services.dispatcher.checkpoints.operations import Flush
from tests.rows import Work, from_now
from tests.services.dispatcher.desk import (
    WRONG_FENCES,
    Desk,
    checkpoint,
    completed,
    fence_of,
    released,
    span,
)


def flush_of(work: Work, *, tenant: str = "acme", **changes: Any) -> Flush:
    """A flush to send as it is, several times if need be."""
    return Flush(tenant=tenant, fence=fence_of(work), checkpoint=checkpoint(**changes), spans=())


@pytest.mark.guarantee("C1")
async def test_state_spans_and_cursor_are_stored_together(desk: Desk) -> None:
    work = await desk.running()
    flush_id = str(uuid.uuid4())
    answer = await desk.flush(
        work,
        [span(work, 1), span(work, 2)],
        flush_id=flush_id,
        state=b"\x00sealed",
        state_schema_version=3,
        state_codec="age",
        event_cursor=42,
        phase="publish",
        final=True,
        analysis_status="succeeded",
    )
    assert (answer.version, answer.repeated) == (1, False)
    run = await desk.rows.one("runs")
    assert run == {
        **run,
        **{name: getattr(work, name) for name in ("tenant", "key", "action", "generation")},
        "run_id": answer.run_id,
        "intent_id": work.intent_id,
        "epoch": 1,
        "version": 1,
        "flush_id": flush_id,
        "state": b"\x00sealed",
        "state_schema_version": 3,
        "state_codec": "age",
        "event_cursor": 42,
        "phase": "publish",
        "analysis_status": "succeeded",
        "final": True,
    }
    flush = await desk.rows.one("flushes", tenant=work.tenant)
    assert (flush["flush_id"], flush["version"], flush["state_bytes"], flush["span_count"]) == (
        *(flush_id, 1, 7, 2),
    )
    spans = await desk.rows.all("run_spans")
    assert [(row["span_id"][0], row["intent_id"], row["exported_at"]) for row in spans] == [
        (1, work.intent_id, None),
        (2, work.intent_id, None),
    ]


@pytest.mark.guarantee("C1")
@pytest.mark.parametrize("table", ["runs", "flushes", "run_spans"])
async def test_when_any_part_fails_nothing_is_written(desk: Desk, table: str) -> None:
    work = await desk.running()
    await desk.flush(work)
    before = await desk.everything()
    await desk.rows.connection.execute(
        "CREATE FUNCTION fencepost.fail() RETURNS trigger LANGUAGE plpgsql "
        "AS $$ BEGIN RAISE EXCEPTION 'no disk'; END $$"
    )
    await desk.rows.connection.execute(
        sql.SQL(
            "CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON fencepost.{} "
            "FOR EACH ROW EXECUTE FUNCTION fencepost.fail()"
        ).format(sql.Identifier(table))
    )
    with pytest.raises(errors.RaiseException, match="no disk"):
        await desk.flush(work, [span(work)], based_on_version=1)
    assert await desk.everything() == before
    await desk.rows.connection.execute("DROP FUNCTION fencepost.fail() CASCADE")
    assert (await desk.flush(work, [span(work)], based_on_version=1)).version == 2


@pytest.mark.guarantee("C2")
async def test_each_flush_makes_the_next_version_of_one_run(desk: Desk) -> None:
    work = await desk.running()
    answers = [await desk.flush(work, based_on_version=version) for version in range(4)]
    assert [answer.version for answer in answers] == [1, 2, 3, 4]
    assert len({answer.run_id for answer in answers}) == 1
    assert sorted(row["version"] for row in await desk.rows.all("flushes")) == [1, 2, 3, 4]
    assert (await desk.rows.one("runs"))["version"] == 4


@pytest.mark.guarantee("C2")
async def test_a_repeated_flush_returns_the_stored_acknowledgement(desk: Desk) -> None:
    work = await desk.running()
    command = flush_of(work)
    first = await desk.checkpoints.flush(command)
    await desk.flush(work, based_on_version=1)
    before = await desk.everything()
    again = await desk.checkpoints.flush(command)
    assert (again.run_id, again.version, again.repeated) == (first.run_id, 1, True)
    assert await desk.everything() == before


@pytest.mark.guarantee("C2")
@pytest.mark.parametrize("loss", ["taken over", "ran out", "settled"])
async def test_also_after_the_lease_was_lost(desk: Desk, loss: str) -> None:
    work = await desk.running()
    command = flush_of(work, final=True)
    await desk.checkpoints.flush(command)
    match loss:
        case "taken over":
            await desk.rows.takeover(work)
        case "ran out":
            await desk.rows.change("leases", {"key": work.key}, claimable_at=from_now(-1))
            await desk.expire()
        case _:
            await desk.settle(work, completed(version=1))
    before = await desk.everything()
    again = await desk.checkpoints.flush(command)
    assert (again.version, again.repeated) == (1, True)
    with pytest.raises(LeaseLost):
        await desk.flush(work, based_on_version=1)
    assert await desk.everything() == before


@pytest.mark.guarantee("C2")
async def test_a_flush_id_stands_for_one_content(desk: Desk) -> None:
    work = await desk.running()
    flush_id = str(uuid.uuid4())
    await desk.flush(work, flush_id=flush_id)
    before = await desk.everything()
    with pytest.raises(RequestIdReused):
        await desk.flush(work, flush_id=flush_id, state=b"other")
    assert await desk.everything() == before


@pytest.mark.guarantee("C2")
@pytest.mark.parametrize("based_on", [0, 1, 3])
async def test_a_flush_on_another_version_than_the_latest_is_refused(
    desk: Desk, based_on: int
) -> None:
    work = await desk.rows.run(await desk.running(), version=2)
    before = await desk.everything()
    with pytest.raises(CheckpointStale) as stale:
        await desk.flush(work, [span(work)], based_on_version=based_on)
    assert (stale.value.base_version, stale.value.latest_version) == (based_on, 2)
    assert await desk.everything() == before


@pytest.mark.guarantee("C2")
async def test_a_first_flush_may_not_be_based_on_anything(desk: Desk) -> None:
    work = await desk.running()
    with pytest.raises(CheckpointStale) as stale:
        await desk.flush(work, based_on_version=1)
    assert stale.value.latest_version == 0
    assert await desk.rows.all("runs") == []


@pytest.mark.guarantee("L3")
@pytest.mark.parametrize("wrong", WRONG_FENCES, ids=str)
async def test_only_the_holder_flushes_and_loads(desk: Desk, wrong: dict[str, Any]) -> None:
    work = await desk.rows.run(await desk.running())
    before = await desk.everything()
    fence = fence_of(work, **wrong)
    with pytest.raises(LeaseLost):
        await desk.checkpoints.flush(
            Flush(
                tenant="acme",
                fence=fence,
                checkpoint=checkpoint(based_on_version=1, span_count=1),
                spans=[span(work)],
            )
        )
    with pytest.raises(LeaseLost):
        await desk.checkpoints.load("acme", fence)
    assert await desk.everything() == before


@pytest.mark.guarantee("L3", "X8")
async def test_another_tenant_flushes_and_loads_nothing(desk: Desk) -> None:
    work = await desk.running()
    await desk.checkpoints.flush(flush_of(work))
    before = await desk.everything()
    with pytest.raises(LeaseLost):
        await desk.checkpoints.flush(flush_of(work, tenant="theirs", based_on_version=1))
    with pytest.raises(LeaseLost):
        await desk.checkpoints.load("theirs", fence_of(work))
    assert await desk.everything() == before


@pytest.mark.guarantee("L3")
async def test_a_late_holder_that_nobody_replaced_may_flush(desk: Desk) -> None:
    work = await desk.running(claimable_in_ms=-60_000)
    assert (await desk.flush(work)).version == 1


async def test_the_next_attempt_goes_on_from_the_last_checkpoint(desk: Desk) -> None:
    work = await desk.ready()
    stream = await desk.stream()
    [first] = await desk.grant(stream)
    fence = fence_of(first, holder=stream.session_id)
    assert await desk.checkpoints.load("acme", fence) is None
    await desk.checkpoints.flush(
        Flush(tenant="acme", fence=fence, checkpoint=checkpoint(state=b"half"), spans=())
    )
    await desk.settle(_under(work, first, stream.session_id), released(delay_ms=0))
    [second] = await desk.grant(stream)
    fence = fence_of(second, holder=stream.session_id)
    loaded = await desk.checkpoints.load("acme", fence)
    assert loaded is not None
    assert (loaded.version, loaded.state, loaded.event_cursor) == (1, b"half", 7)
    await desk.checkpoints.flush(
        Flush(tenant="acme", fence=fence, checkpoint=checkpoint(based_on_version=1), spans=())
    )
    run = await desk.rows.one("runs")
    assert (run["version"], run["epoch"], run["intent_id"]) == (2, 2, work.intent_id)


def _under(work: Work, grant: Any, holder: str) -> Work:
    return dataclasses.replace(work, epoch=grant.epoch, holder=holder)


async def test_another_generation_begins_a_run_of_its_own(desk: Desk) -> None:
    work = await desk.running(generation=2)
    await desk.rows.run(dataclasses.replace(work, generation=1), version=5)
    assert await desk.checkpoints.load("acme", fence_of(work)) is None
    assert (await desk.flush(work)).version == 1
    assert len(await desk.rows.all("runs")) == 2


@pytest.mark.guarantee("C1")
async def test_a_span_is_stored_once(desk: Desk) -> None:
    work = await desk.running()
    await desk.flush(work, [span(work, 1)])
    await desk.flush(work, [span(work, 1), span(work, 2)], based_on_version=1)
    stored = await desk.rows.all("run_spans")
    assert [row["span_id"][0] for row in stored] == [1, 2]
    assert {row["service_name"] for row in stored} == {"fencepost-worker"}

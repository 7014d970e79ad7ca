"""Goal: a span that the collector will never take holds up none behind it, and nobody else's do.

Method: a collector that refuses each request in which a span of a certain name stands.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fencepost.errors import FencepostError
from grpc import StatusCode
from structlog.testing import capture_logs

from services.dispatcher.housekeeping.export_client import Collector
from services.dispatcher.housekeeping.export_operations import REFUSED, SpanExporter
from shared.metrics import REGISTRY
from tests.services.dispatcher.desk import Desk
from tests.services.dispatcher.housekeeping.test_export import collector_at, exported, store
from tests.shared import collector as scripted

POISON = "workk"
"""What `store` calls a span that is one byte longer."""

TRACE_ID = b"\x01" * 16
OTHER_TRACE_ID = b"\x02" * 16


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[scripted.Collector, Collector]]:
    async with scripted.Collector.running() as receiver:
        receiver.poison = POISON
        client = collector_at(receiver.endpoint)
        yield receiver, client
        await client.close()


async def stored(desk: Desk, *, before: int, behind: int) -> None:
    """Spans around one that is refused."""
    await store(desk, TRACE_ID, before)
    await store(desk, OTHER_TRACE_ID, 1, size_bytes=len(POISON) - len("work"))
    await store(desk, b"\x03" * 16, behind)


async def ticks(desk: Desk, client: Collector, *, page: int = 500) -> int:
    """Ticks until nothing waits; returns how many there were."""
    exporter = SpanExporter(
        desk.database,
        client.send,
        desk.settings.model_copy(update={"duty_batch_max": page}),
    )
    count = 1
    while await exporter.tick():
        count += 1
        assert count < 50
    return count


def lost() -> float:
    return REGISTRY.get_sample_value("trace_spans_lost_total", {"cause": REFUSED}) or 0.0


@pytest.mark.guarantee("C7")
async def test_the_span_that_is_refused_for_good_is_set_apart_told_and_counted(desk: Desk) -> None:
    await stored(desk, before=20, behind=12)
    before = lost()
    async with collecting() as (receiver, client):
        with capture_logs() as logs:
            await ticks(desk, client)
    assert [span.name for span in receiver.spans] == ["work"] * 32
    assert len(await exported(desk)) == 33
    assert lost() == before + 1
    [told] = [entry for entry in logs if entry["log_level"] == "warning"]
    assert told["spans"] == 1
    assert told["why"].endswith("INVALID_ARGUMENT: a span that I cannot read")
    [poisoned] = await desk.rows.all("run_spans", trace_id=OTHER_TRACE_ID)
    assert told["span_seq"] == poisoned["span_seq"]


async def test_after_a_refusal_pages_grow_again(desk: Desk) -> None:
    await stored(desk, before=0, behind=60)
    async with collecting() as (_, client):
        assert await ticks(desk, client, page=16) < 16


@pytest.mark.parametrize(
    "code",
    [
        StatusCode.UNAUTHENTICATED,
        StatusCode.PERMISSION_DENIED,
        StatusCode.UNIMPLEMENTED,
        StatusCode.NOT_FOUND,
        StatusCode.UNAVAILABLE,
        StatusCode.DATA_LOSS,
    ],
)
async def test_a_refusal_of_the_sender_or_for_now_loses_no_span(
    desk: Desk, code: StatusCode
) -> None:
    await stored(desk, before=1, behind=1)
    async with collecting() as (receiver, client):
        receiver.code = code
        with pytest.raises(FencepostError, match=code.name):
            await ticks(desk, client)
        assert await exported(desk) == []
        receiver.poison = ""
        await ticks(desk, client)
    assert len(receiver.spans) == 3


@pytest.mark.parametrize("for_now", [True, False])
async def test_too_much_is_for_good_unless_the_collector_says_when_to_come_again(
    desk: Desk, *, for_now: bool
) -> None:
    await stored(desk, before=1, behind=1)
    async with collecting() as (receiver, client):
        receiver.code, receiver.retry_info = StatusCode.RESOURCE_EXHAUSTED, for_now
        if for_now:
            with pytest.raises(FencepostError, match="RESOURCE_EXHAUSTED"):
                await ticks(desk, client)
            assert await exported(desk) == []
        else:
            await ticks(desk, client)
            assert len(receiver.spans) == 2


async def test_spans_that_the_collector_dropped_are_counted_and_not_sent_again(desk: Desk) -> None:
    await store(desk, TRACE_ID, 3)
    before = lost()
    async with collecting() as (receiver, client):
        receiver.dropped = 2
        await ticks(desk, client)
    assert (lost(), len(receiver.spans)) == (before + 2, 3)

"""Stored spans reach a collector at least once, with the same ids, whatever it does meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from fencepost.errors import FencepostError
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from examples.trace_receiver.client import TraceReceiver
from services.dispatcher.housekeeping.export_client import Collector
from services.dispatcher.housekeeping.export_operations import EXPORT_BYTES_MAX, SpanExporter
from tests.services.dispatcher.desk import Desk, dispatcher_settings
from tests.shared import collector as scripted
from tests.shared.collector import CALLER, access
from tests.shared.rpc.certificates import Authority
from tests.waiting import until

TIMEOUT_MS = 1000


@pytest.fixture(scope="module")
def receiver() -> Iterator[TraceReceiver]:
    with TraceReceiver.start() as receiver:
        yield receiver


@pytest.fixture
async def collector(receiver: TraceReceiver) -> AsyncIterator[Collector]:
    receiver.misbehave("none")
    collector = collector_at(receiver.otlp_endpoint)
    yield collector
    await collector.close()


def collector_at(endpoint: str, **changes: Any) -> Collector:
    return Collector(
        dispatcher_settings(
            "postgresql://nobody@127.0.0.1:1/none",
            otlp_endpoint=endpoint,
            otlp_timeout_ms=TIMEOUT_MS,
            **changes,
        )
    )


@pytest.fixture
def trace_id(request: pytest.FixtureRequest) -> bytes:
    """A trace of the test's own."""
    return hash(request.node.name).to_bytes(16, "big", signed=True)


async def store(
    desk: Desk, trace_id: bytes, count: int, *, size_bytes: int = 0, service_name: str = "my-bot"
) -> list[str]:
    """Stores spans as a flush would; returns their ids."""
    ids = []
    for number in range(1, count + 1):
        span = Span(
            trace_id=trace_id,
            span_id=number.to_bytes(8, "big"),
            name="work" + "k" * size_bytes,
            start_time_unix_nano=1,
            end_time_unix_nano=2,
        )
        await desk.rows.insert(
            "run_spans",
            tenant="acme",
            intent_id=1,
            trace_id=span.trace_id,
            span_id=span.span_id,
            service_name=service_name,
            otlp_span=span.SerializeToString(),
        )
        ids.append(span.span_id.hex())
    return ids


def exporter(desk: Desk, collector: Collector) -> SpanExporter:
    return SpanExporter(desk.database, collector.send, desk.settings)


async def pending(desk: Desk) -> int:
    return len(await desk.rows.all("run_spans")) - len(await exported(desk))


async def exported(desk: Desk) -> list[object]:
    rows = await desk.rows.all("run_spans")
    return [row for row in rows if row["exported_at"] is not None]


@pytest.mark.guarantee("C7")
async def test_spans_leave_with_their_ids_under_the_service_that_made_them(
    desk: Desk, collector: Collector, receiver: TraceReceiver, trace_id: bytes
) -> None:
    ids = await store(desk, trace_id, 3)
    assert await exporter(desk, collector).tick()
    assert not await exporter(desk, collector).tick()
    seen = receiver.spans(trace_id.hex())
    assert [span.span_id for span in seen] == ids
    assert {span.service_name for span in seen} == {"my-bot"}
    assert await pending(desk) == 0


@pytest.mark.guarantee("C7")
async def test_what_the_collector_did_not_take_is_sent_again(
    desk: Desk, collector: Collector, receiver: TraceReceiver, trace_id: bytes
) -> None:
    ids = await store(desk, trace_id, 2)
    receiver.misbehave("fail", times=1)
    with pytest.raises(FencepostError, match="UNAVAILABLE"):
        await exporter(desk, collector).tick()
    assert (receiver.exports_met(), await pending(desk)) == (1, 2)
    await exporter(desk, collector).tick()
    assert [span.span_id for span in receiver.spans(trace_id.hex())] == ids
    assert await pending(desk) == 0


@pytest.mark.guarantee("C7")
async def test_a_collector_that_does_not_answer_is_given_up_in_time(
    desk: Desk, collector: Collector, receiver: TraceReceiver, trace_id: bytes
) -> None:
    await store(desk, trace_id, 1)
    receiver.misbehave("hang", times=1)
    with pytest.raises(FencepostError, match="DEADLINE_EXCEEDED"):
        await exporter(desk, collector).tick()
    assert await pending(desk) == 1


async def test_replicas_share_the_spans(
    desk: Desk, collector: Collector, receiver: TraceReceiver, trace_id: bytes
) -> None:
    await store(desk, trace_id, 2)
    receiver.misbehave("hang", times=1)
    slow = asyncio.create_task(exporter(desk, collector).tick())
    await until(lambda: receiver.exports_met() == 1, what="the first export to hang")
    assert not await exporter(desk, collector).tick()
    receiver.misbehave("none")
    assert await slow
    assert len(receiver.spans(trace_id.hex())) == 2


async def test_one_export_is_never_larger_than_collectors_take(
    desk: Desk, collector: Collector, receiver: TraceReceiver, trace_id: bytes
) -> None:
    size_bytes = 65_000
    count = EXPORT_BYTES_MAX // size_bytes + 3
    await store(desk, trace_id, count, size_bytes=size_bytes)
    assert await exporter(desk, collector).tick()
    assert await pending(desk) in (1, 2)
    assert await exporter(desk, collector).tick()
    assert not await exporter(desk, collector).tick()
    assert len(receiver.spans(trace_id.hex())) == count


async def test_no_collector_is_a_refusal_and_not_a_fault(desk: Desk, trace_id: bytes) -> None:
    await store(desk, trace_id, 1)
    nowhere = collector_at("http://127.0.0.1:9")
    with pytest.raises(FencepostError, match="UNAVAILABLE"):
        await exporter(desk, nowhere).tick()
    await nowhere.close()
    assert await pending(desk) == 1


@pytest.mark.guarantee("C7")
async def test_the_collector_is_reached_as_the_services_own_traces_reach_it(
    desk: Desk, trace_id: bytes, tmp_path: Path
) -> None:
    authority = Authority()
    async with scripted.Collector.running(clients=authority) as receiver:
        client = collector_at(receiver.endpoint, **access(tmp_path, authority))
        await store(desk, trace_id, 1)
        await exporter(desk, client).tick()
        await client.close()
    assert len(receiver.spans) == 1
    assert receiver.metadata[0]["x-collector-key"] == "a key"
    assert receiver.callers == [CALLER]

"""Goal: a worker's spans belong to the trace of its dispatch, and none is lost without a count."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from fencepost import PermanentError, Run
from fencepost.errors import FieldInvalid
from fencepost.spans import (
    BYTES_KEPT_MAX,
    SPAN_BYTES_MAX,
    SPANS_KEPT_MAX,
    SPANS_TAKEN_MAX,
    SpanRecorder,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from examples.trace_receiver.client import ExportedSpan, TraceReceiver
from tests.database_server import as_service
from tests.sdk.worker.bench import Bench, told
from tests.sdk.worker.conftest import DISPATCHER
from tests.service_process import service_process_beside
from tests.waiting import until

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
async def traced(shared_url: str, bench: Bench) -> AsyncIterator[tuple[Bench, TraceReceiver]]:
    """A dispatcher that exports, and where to."""
    with TraceReceiver.start() as receiver:
        environment = {**DISPATCHER, "DISPATCHER_OTLP_ENDPOINT": receiver.otlp_endpoint}
        url = as_service(shared_url, "dispatcher")
        async with service_process_beside("dispatcher", url, environment) as dispatcher:
            yield replace(bench, dispatcher=dispatcher.grpc), receiver


def named(spans: list[Span], name: str) -> list[Span]:
    return [span for span in spans if span.name == name]


@pytest.mark.guarantee("C7")
async def test_each_flush_is_a_span_on_both_sides_in_the_trace_of_the_dispatch(
    traced: tuple[Bench, TraceReceiver],
) -> None:
    bench, receiver = traced
    work = await bench.work()
    dispatched: list[str] = []

    async def handler(run: Run) -> None:
        dispatched.append(run.dispatch.traceparent)
        run.state["remark"] = "ok"
        with run.span("analyse", model="none"):
            await run.checkpoint("analyse")
        await run.checkpoint(final=True)

    def exported() -> list[ExportedSpan] | None:
        spans = receiver.spans(bench.trace_id)
        names = [span.name for span in spans]
        complete = names.count("checkpoint.flush") == 4 and "run container-dispatch" in names
        return spans if complete else None

    async with bench.working(handler, service_name="demo-bot"):
        await bench.settled(work)
        spans = await until(exported, what="the trace to be exported")
    by_id = {span.span_id: span for span in spans}
    of_worker = [span for span in spans if span.service_name == "demo-bot"]
    assert sorted((span.name, span.kind.lower()) for span in of_worker) == [
        ("analyse", "internal"),
        ("checkpoint.flush", "client"),
        ("checkpoint.flush", "client"),
        ("run container-dispatch", "consumer"),
    ]
    [root] = [span for span in of_worker if span.name.startswith("run ")]
    assert root.parent_span_id == dispatched[0].split("-")[2]
    assert by_id[root.parent_span_id].name == "intent.dispatch"
    flushes = [span for span in of_worker if span.name == "checkpoint.flush"]
    [analyse] = [span for span in of_worker if span.name == "analyse"]
    assert [flush.parent_span_id for flush in flushes] == [analyse.span_id, root.span_id]
    run = await bench.rows.one("runs", tenant=work.tenant)
    for version, flush in enumerate(flushes, start=1):
        other = _descendants(spans, flush, "checkpoint.flush")
        for side in (flush, *other):
            shown = {name: side.attributes[f"fencepost.{name}"] for name in _SHOWN}
            assert shown == {
                "run.id": run["run_id"],
                "checkpoint.version": version,
                "checkpoint.bytes": len(b'{"remark":"ok"}'),
                "checkpoint.spans": 0 if version == 1 else 2,
                "checkpoint.final": version == 2,
                "outcome": "stored",
            }
        assert len(other) == 1


_SHOWN = (
    "run.id",
    "checkpoint.version",
    "checkpoint.bytes",
    "checkpoint.spans",
    "checkpoint.final",
    "outcome",
)


def _descendants(spans: list[ExportedSpan], of: ExportedSpan, name: str) -> list[ExportedSpan]:
    children = [span for span in spans if span.parent_span_id == of.span_id]
    found = [child for child in children if child.name == name]
    return found + [deep for child in children for deep in _descendants(spans, child, name)]


@pytest.mark.parametrize("fails", [False, True])
async def test_the_last_spans_arrive_with_the_outcome(bench: Bench, fails: bool) -> None:
    work = await bench.work()

    async def handler(run: Run) -> None:
        if run.attempt > 1:
            return
        await run.checkpoint(final=True)
        with run.span("after the final flush"):
            await asyncio.sleep(0)
        if fails:
            raise ValueError("once")

    async with bench.working(handler):
        await bench.settled(work)
    spans = await bench.spans(work)
    assert len(await bench.flushes(work)) == 1
    [last] = named(spans, "after the final flush")
    root, *_ = named(spans, "run container-dispatch")
    assert last.parent_span_id == root.span_id
    assert root.trace_id.hex() == bench.trace_id
    assert root.status.code == (Status.STATUS_CODE_ERROR if fails else Status.STATUS_CODE_OK)
    assert root.status.message == ("ValueError" if fails else "")
    assert told(root) == {
        "fencepost.key": work.key,
        "fencepost.action": work.action,
        "fencepost.epoch": 1,
        "fencepost.intent.id": work.intent_id,
        "fencepost.attempt": 1,
        "messaging.destination.name": "reviews",
    }


async def test_work_that_is_not_sampled_makes_no_spans(bench: Bench) -> None:
    work = await bench.work(traceparent=bench.traceparent.removesuffix("1") + "0")

    async def handler(run: Run) -> None:
        with run.span("unseen"):
            await run.checkpoint("unseen")

    async with bench.working(handler):
        await bench.settled(work)
    assert await bench.spans(work) == []


@pytest.mark.guarantee("C3")
async def test_a_refused_flush_returns_its_spans_in_order(bench: Bench) -> None:
    work = await bench.work()

    async def handler(run: Run) -> None:
        for name in ("first", "second"):
            with run.span(name):
                await asyncio.sleep(0)
        with pytest.raises(FieldInvalid):
            await run.checkpoint("p" * 101)
        with run.span("third"):
            await asyncio.sleep(0)

    async with bench.working(handler):
        await bench.settled(work)
    names = [span.name for span in await bench.spans(work)]
    refused, stored = named(await bench.spans(work), "checkpoint.flush")
    assert sorted(names) == sorted(
        ["first", "second", "checkpoint.flush", "third", "checkpoint.flush", f"run {work.action}"]
    )
    assert (told(refused)["fencepost.outcome"], refused.status.message) == (
        "refused",
        "FieldInvalid",
    )
    assert (told(stored)["fencepost.outcome"], told(stored)["fencepost.checkpoint.spans"]) == (
        "stored",
        4,
    )


async def test_more_spans_than_one_outcome_carries_are_flushed_before_it(bench: Bench) -> None:
    work = await bench.work()
    count = SPANS_TAKEN_MAX * 2

    async def handler(run: Run) -> None:
        for number in range(count):
            with run.span("one of many", number=number):
                pass

    async with bench.working(handler):
        await bench.settled(work)
    stored = await bench.rows.all("run_spans", intent_id=work.intent_id)
    flushes = await bench.flushes(work)
    assert len(stored) == count + len(flushes) + 1
    assert {flush["final"] for flush in flushes} == {True}


@pytest.mark.guarantee("C3")
async def test_what_a_failure_cannot_carry_is_dropped_and_counted(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    work = await bench.work()

    async def handler(run: Run) -> None:
        for _ in range(SPANS_TAKEN_MAX + 4):
            with run.span("one of many"):
                pass
        raise PermanentError("never")

    async with bench.working(handler):
        await bench.settled(work, "dead")
    stored = await bench.spans(work)
    assert len(stored) == SPANS_TAKEN_MAX
    assert named(stored, f"run {work.action}")
    assert f"intent {work.intent_id}: 5 of its spans were dropped" in caplog.text


def recorded(recorder: SpanRecorder) -> list[Span]:
    spans: list[Span] = []
    while taken := recorder.take():
        spans += [Span.FromString(span) for span in taken]
    return spans


@pytest.mark.guarantee("C3")
def test_what_is_put_back_comes_first_and_in_order() -> None:
    recorder = SpanRecorder(TRACEPARENT)
    for name in "abc":
        with recorder.span(name):
            pass
    taken = recorder.take()
    with recorder.span("d"):
        pass
    recorder.put_back(taken)
    assert [span.name for span in recorded(recorder)] == ["a", "b", "c", "d"]


@pytest.mark.guarantee("C3")
def test_what_waits_is_bounded_and_drops_are_counted() -> None:
    recorder = SpanRecorder(TRACEPARENT)
    for number in range(SPANS_KEPT_MAX + 3):
        with recorder.span(str(number)):
            pass
    assert recorder.dropped == 3
    assert [span.name for span in recorded(recorder)[:2]] == ["3", "4"]

    recorder = SpanRecorder(TRACEPARENT)
    for _ in range(BYTES_KEPT_MAX // 4000 + 3):
        with recorder.span("large", attributes={"text": "x" * 4000}):
            pass
    assert recorder.dropped > 3
    assert sum(span.ByteSize() for span in recorded(recorder)) <= BYTES_KEPT_MAX


def test_no_attribute_of_a_handler_can_spoil_a_span() -> None:
    recorder = SpanRecorder(TRACEPARENT)
    odd = {"half": "\ud83d", "huge": 2**70, "list": [1], "text": "x" * 10_000, "none": None}
    with recorder.span("odd \ud83d", attributes=odd):  # type: ignore[arg-type]  # a handler may
        pass
    many = {f"attribute {number}": "x" * 4000 for number in range(100)}
    with recorder.span("too large", attributes=many):
        pass
    first, second = recorded(recorder)
    assert first.name == "odd ?"
    assert told(first) == {
        "half": "?",
        "huge": str(2**70),
        "list": "[1]",
        "text": "x" * 4096,
        "none": "None",
    }
    assert second.ByteSize() < SPAN_BYTES_MAX
    assert (len(second.attributes), second.dropped_attributes_count) == (0, 100)


def test_a_dispatch_without_a_trace_begins_one() -> None:
    recorder = SpanRecorder("nonsense")
    with recorder.span("root"), recorder.span("child"):
        pass
    child, root = recorded(recorder)
    assert root.parent_span_id == b""
    assert child.parent_span_id == root.span_id
    assert child.trace_id == root.trace_id == bytes.fromhex(recorder.trace_id)


def test_an_error_marks_its_span_by_type_alone() -> None:
    recorder = SpanRecorder(TRACEPARENT)
    with pytest.raises(ValueError, match="secret"), recorder.span("failing"):
        raise ValueError("a secret")
    [span] = recorded(recorder)
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "ValueError")

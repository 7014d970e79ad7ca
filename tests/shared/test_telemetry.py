"""Traces keep the caller's decision, and cost spans but neither calls nor the exit."""

import asyncio
import socket
import sys
import time
from pathlib import Path

import fencepost
import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from pydantic import SecretStr
from structlog.testing import capture_logs

from shared import telemetry
from shared.metrics import REGISTRY
from shared.settings import RuntimeSettings
from shared.telemetry import EXIT, EXPORT_FAILED, QUEUE_FULL, QUEUED_SPANS_MAX
from tests.shared.collector import CALLER, Collector, access
from tests.shared.rpc.certificates import Authority
from tests.waiting import until

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"
PATIENT_MS = 10_000
"""A busy machine takes spans late."""

SAMPLED = f"00-{TRACE_ID}-{SPAN_ID}-01"
NOT_SAMPLED = f"00-{TRACE_ID}-{SPAN_ID}-00"
MALFORMED = (
    "",
    "nonsense",
    f"00-{TRACE_ID}-{SPAN_ID}",
    f"00-{'0' * 32}-{SPAN_ID}-01",
    f"00-{TRACE_ID}-{'0' * 16}-01",
    f"ff-{TRACE_ID}-{SPAN_ID}-01",
    f"00-{TRACE_ID.upper()[:-1]}G-{SPAN_ID}-01",
    f"00-{TRACE_ID}-{SPAN_ID}-01-" + "x" * 10_000,
    "00-\x00-\u2603-01",
)

HANGING_EXIT = """
import asyncio, sys
from pydantic import SecretStr
from shared import telemetry
from shared.settings import RuntimeSettings

async def main():
    settings = RuntimeSettings(
        database_url=SecretStr("postgresql://r:p@h/d"), grpc_address="127.0.0.1:0",
        admin_address="127.0.0.1:0", otlp_endpoint=sys.argv[1], otlp_timeout_ms=60_000)
    traces = telemetry.start("ingress", settings)
    for _ in range(2000):
        traces.tracer.start_span("lost").end()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await traces.stop(within_ms=300)
    print(loop.time() - began)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def provider_of_the_process(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """It can be set once only, and other tests live in this process too."""
    taken: list[object] = []
    monkeypatch.setattr(trace, "set_tracer_provider", taken.append)
    return taken


def settings(**changes: object) -> RuntimeSettings:
    """Settings of no service in particular."""
    return RuntimeSettings.model_validate(
        {
            "database_url": SecretStr("postgresql://r:p@h/d"),
            "grpc_address": "127.0.0.1:0",
            "admin_address": "127.0.0.1:0",
            "instance": "replica-1",
            "otlp_timeout_ms": PATIENT_MS,
            **changes,
        }
    )


def lost(cause: str) -> float:
    """Spans lost so far in this process."""
    return REGISTRY.get_sample_value("trace_spans_lost_total", {"cause": cause}) or 0.0


async def test_spans_are_exported_with_who_we_are() -> None:
    async with Collector.running() as collector:
        traces = telemetry.start("ingress", settings(otlp_endpoint=collector.endpoint))
        with traces.tracer.start_as_current_span("webhook"):
            pass
        await traces.stop(within_ms=PATIENT_MS)
    assert [span.name for span in collector.spans] == ["webhook"]
    resource = {
        each.key: each.value.string_value for each in collector.received[0].resource.attributes
    }
    assert resource["service.name"] == "ingress"
    assert resource["service.namespace"] == "fencepost"
    assert resource["service.version"] == fencepost.__version__
    assert resource["service.instance.id"] == "replica-1"


async def test_a_collector_may_ask_for_a_header_and_a_certificate(tmp_path: Path) -> None:
    authority = Authority()
    async with Collector.running(clients=authority) as collector:
        reached = settings(otlp_endpoint=collector.endpoint, **access(tmp_path, authority))
        traces = telemetry.start("ingress", reached)
        with traces.tracer.start_as_current_span("webhook"):
            pass
        await traces.stop(within_ms=PATIENT_MS)
    assert [span.name for span in collector.spans] == ["webhook"]
    assert collector.metadata[0]["x-collector-key"] == "a key"
    assert collector.callers == [CALLER]


async def test_spans_are_exported_while_the_process_runs() -> None:
    async with Collector.running() as collector:
        traces = telemetry.start("ingress", settings(otlp_endpoint=collector.endpoint))
        traces.tracer.start_span("soon").end()
        await until(lambda: collector.spans, what="the span to arrive by itself")
        await traces.stop(within_ms=PATIENT_MS)


@pytest.mark.parametrize("parent", [SAMPLED, NOT_SAMPLED])
@pytest.mark.parametrize("ratio", [0.0, 1.0])
async def test_the_callers_decision_is_kept(parent: str, ratio: float) -> None:
    async with Collector.running() as collector:
        traces = telemetry.start(
            "ingress", settings(otlp_endpoint=collector.endpoint, trace_sample_ratio=ratio)
        )
        span = traces.tracer.start_span("call", telemetry.context_from(parent))
        assert telemetry.traceparent_of(span).startswith(f"00-{TRACE_ID}-")
        span.end()
        await traces.stop(within_ms=PATIENT_MS)
    assert len(collector.spans) == (1 if parent == SAMPLED else 0)
    assert all(span.parent_span_id.hex() == SPAN_ID for span in collector.spans)


async def test_new_traces_are_recorded_by_ratio() -> None:
    async with Collector.running() as collector:
        traces = telemetry.start(
            "ingress", settings(otlp_endpoint=collector.endpoint, trace_sample_ratio=0.0)
        )
        traces.tracer.start_span("root", Context()).end()
        await traces.stop(within_ms=PATIENT_MS)
    assert collector.spans == []


async def test_without_a_collector_spans_have_ids_and_cost_nothing_more() -> None:
    traces = telemetry.start("ingress", settings())
    span = traces.tracer.start_span("root", Context())
    assert span.get_span_context().is_valid
    assert not span.is_recording()
    await traces.stop(within_ms=100)


async def test_a_hanging_collector_holds_the_stop_no_longer_than_given() -> None:
    before = lost(EXIT)
    async with Collector.running("hangs") as collector:
        traces = telemetry.start(
            "ingress", settings(otlp_endpoint=collector.endpoint, otlp_timeout_ms=60_000)
        )
        for _ in range(10):
            traces.tracer.start_span("lost").end()
        began_s = time.monotonic()
        with capture_logs() as logs:
            await traces.stop(within_ms=200)
        assert time.monotonic() - began_s < 5
    assert lost(EXIT) - before == 10
    assert logs[0]["spans"] == 10


async def test_a_process_leaves_a_collector_that_never_even_answers_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            HANGING_EXIT,
            f"http://127.0.0.1:{silent.getsockname()[1]}",
            stdout=asyncio.subprocess.PIPE,
        )
        began_s = time.monotonic()
        said, _ = await asyncio.wait_for(process.communicate(), timeout=30)
    assert process.returncode == 0
    assert float(said.splitlines()[-1]) < 5
    assert time.monotonic() - began_s < 30


async def test_a_collector_that_refuses_is_counted_and_told_once() -> None:
    before = lost(EXPORT_FAILED)
    async with Collector.running("refuses") as collector:
        with capture_logs() as logs:
            traces = telemetry.start("ingress", settings(otlp_endpoint=collector.endpoint))
            traces.tracer.start_span("lost").end()
            await until(lambda: lost(EXPORT_FAILED) - before == 1, what="a first loss")
            traces.tracer.start_span("lost too").end()
            await until(lambda: lost(EXPORT_FAILED) - before == 2, what="a second loss")
            collector.mood = "takes"
            traces.tracer.start_span("kept").end()
            await traces.stop(within_ms=PATIENT_MS)
    assert [span.name for span in collector.spans] == ["kept"]
    assert [entry["event"] for entry in logs] == [
        "traces are lost: the collector does not take them",
        "the collector takes traces again",
    ]


async def test_a_full_queue_loses_spans_and_holds_up_nobody() -> None:
    before = lost(QUEUE_FULL)
    async with Collector.running("hangs") as collector:
        traces = telemetry.start(
            "ingress", settings(otlp_endpoint=collector.endpoint, otlp_timeout_ms=60_000)
        )
        for _ in range(2 * QUEUED_SPANS_MAX):
            traces.tracer.start_span("many").end()
        # One batch is with the collector already.
        assert lost(QUEUE_FULL) - before >= QUEUED_SPANS_MAX - telemetry.BATCH_SPANS_MAX
        await traces.stop(within_ms=100)


async def test_the_first_one_traces_for_the_whole_process(
    provider_of_the_process: list[object],
) -> None:
    traces = telemetry.start("ingress", settings())
    assert len(provider_of_the_process) == 1
    await traces.stop(within_ms=100)


def test_a_traceparent_leads_back_to_its_span() -> None:
    tracer = telemetry.start("ingress", settings()).tracer
    parent = tracer.start_span("parent", telemetry.context_from(SAMPLED))
    child = tracer.start_span("child", telemetry.context_from(telemetry.traceparent_of(parent)))
    assert child.get_span_context().trace_id == int(TRACE_ID, 16)


def test_the_span_under_way_has_a_traceparent() -> None:
    tracer = telemetry.start("ingress", settings()).tracer
    assert telemetry.current_traceparent() == ""
    with tracer.start_as_current_span("now") as span:
        assert telemetry.current_traceparent() == telemetry.traceparent_of(span) != ""


@pytest.mark.parametrize("malformed", MALFORMED)
def test_a_malformed_traceparent_begins_a_new_trace(malformed: str) -> None:
    tracer = telemetry.start("ingress", settings()).tracer
    with tracer.start_as_current_span("ambient") as ambient:
        root = tracer.start_span("root", telemetry.context_from(malformed))
        assert root.get_span_context().is_valid
        assert root.get_span_context().trace_id != ambient.get_span_context().trace_id


def test_nothing_of_the_span_under_way_gets_into_a_parents_context() -> None:
    tracer = telemetry.start("ingress", settings()).tracer
    with tracer.start_as_current_span("ambient"):
        child = tracer.start_span("child", telemetry.context_from(SAMPLED))
    assert child.get_span_context().trace_id == int(TRACE_ID, 16)

"""Goal: the span and the figures of a call say how it really ended.

Method: calls that end in every way there is; spans are kept in memory, figures are read back.
"""

import asyncio
from collections.abc import Callable

import grpc
import pytest
from fencepost.dispatcher.v1.intents_pb2 import GetIntentRequest, GetIntentResponse
from fencepost.errors import FencepostError, Internal, LeaseLost, Overloaded
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, StatusCode

from shared import semantic
from shared.metrics import REGISTRY
from shared.rpc.server_span import SpanFactory
from tests.shared.rpc.raw import raw_stub
from tests.shared.rpc.served import Context, Served, empty_intent
from tests.shared.rpc.test_statuses import raising
from tests.waiting import until

Ended = Callable[[], dict[str, float]]

METHOD = "fencepost.dispatcher.v1.IntentService/GetIntent"
REQUEST = GetIntentRequest(intent_id=1)


async def forever(_request: object, _context: Context) -> GetIntentResponse:
    await asyncio.Event().wait()
    return GetIntentResponse()


async def aborting(_request: object, context: Context) -> GetIntentResponse:
    await context.abort(grpc.StatusCode.DATA_LOSS, "by hand")


def figure(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, {"method": METHOD} | labels) or 0


def ends() -> dict[str, float]:
    """How many calls of the method have ended in which way so far."""
    return {
        sample.labels["code"]: sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == "rpc_server_duration_seconds_count" and sample.labels["method"] == METHOD
    }


@pytest.fixture
def ended() -> Ended:
    """How many calls have ended in which way since the test began."""
    before = ends()
    return lambda: {
        code: count - before.get(code, 0)
        for code, count in ends().items()
        if count != before.get(code, 0)
    }


async def test_a_good_call(served: Served, ended: Ended) -> None:
    await served.intent_stub().GetIntent(REQUEST)
    span = await served.span()
    assert (span.name, span.kind, span.parent) == (METHOD, SpanKind.SERVER, None)
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes == {
        semantic.RPC_SYSTEM_NAME: "grpc",
        semantic.RPC_METHOD: METHOD,
        semantic.RPC_RESPONSE_STATUS_CODE: "OK",
    }
    assert ended() == {"OK": 1}
    assert figure("rpc_server_in_flight") == 0


async def test_the_span_is_a_child_of_the_callers_and_parent_of_the_methods(
    served: Served,
) -> None:
    inside: list[trace.SpanContext] = []

    async def answer(request: object, context: Context) -> GetIntentResponse:
        inside.append(trace.get_current_span().get_span_context())
        return await empty_intent(REQUEST, context)

    served.intents.answer = answer
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("client")
    with tracer.start_as_current_span("client") as client:
        await served.intent_stub().GetIntent(REQUEST)
    span = await served.span()
    assert span.parent is not None
    assert span.parent.span_id == client.get_span_context().span_id
    assert span.context.trace_id == client.get_span_context().trace_id
    assert inside[0].span_id == span.context.span_id


@pytest.mark.parametrize(
    ("error", "code", "reason", "status"),
    [
        (LeaseLost(key="k", action="a", epoch=1), "ABORTED", "LEASE_LOST", StatusCode.UNSET),
        (Overloaded(), "UNAVAILABLE", "OVERLOADED", StatusCode.ERROR),
        (RuntimeError("boom"), "INTERNAL", "INTERNAL", StatusCode.ERROR),
    ],
    ids=["the caller's affair", "ours", "unknown"],
)
async def test_a_refused_call(
    served: Served, ended: Ended, error: Exception, code: str, reason: str, status: StatusCode
) -> None:
    before = figure("rpc_server_refusals_total", reason=reason)
    served.intents.answer = raising(error)
    with pytest.raises(FencepostError):
        await raw_stub(served).GetIntent(REQUEST)
    span = await served.span()
    assert span.attributes is not None
    assert span.attributes[semantic.RPC_RESPONSE_STATUS_CODE] == code
    assert span.attributes[semantic.ERROR_TYPE] == reason
    assert span.status.status_code is status
    assert figure("rpc_server_refusals_total", reason=reason) == before + 1
    assert ended() == {code: 1}


async def test_a_call_whose_caller_went_away_is_cancelled_and_its_work_stops(
    served: Served, ended: Ended
) -> None:
    stopped = asyncio.Event()

    async def answer(_request: object, context: Context) -> GetIntentResponse:
        try:
            return await forever(_request, context)
        finally:
            stopped.set()

    served.intents.answer = answer
    call = served.intent_stub().GetIntent(REQUEST)
    await until(lambda: served.intents.calls, what="the method to run")
    call.cancel()
    await stopped.wait()
    span = await served.span()
    assert span.attributes is not None
    assert span.attributes[semantic.RPC_RESPONSE_STATUS_CODE] == "CANCELLED"
    assert span.status.status_code is StatusCode.UNSET
    assert ended() == {"CANCELLED": 1}
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_call_whose_deadline_passed_says_so(served: Served, ended: Ended) -> None:
    served.intents.answer = forever
    with pytest.raises(FencepostError) as refused:
        await served.intent_stub().GetIntent(REQUEST, timeout=1.0)
    assert refused.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
    span = await served.span()
    assert span.attributes is not None
    assert span.attributes[semantic.RPC_RESPONSE_STATUS_CODE] == "DEADLINE_EXCEEDED"
    assert ended() == {"DEADLINE_EXCEEDED": 1}
    assert span.status.status_code is StatusCode.ERROR


async def test_an_abort_by_hand_is_seen_as_what_the_caller_saw(
    served: Served, ended: Ended
) -> None:
    served.intents.answer = aborting
    with pytest.raises(FencepostError) as refused:
        await served.intent_stub().GetIntent(REQUEST)
    assert refused.value.code is grpc.StatusCode.DATA_LOSS
    span = await served.span()
    assert span.attributes is not None
    assert span.attributes[semantic.RPC_RESPONSE_STATUS_CODE] == "DATA_LOSS"
    assert ended() == {"DATA_LOSS": 1}


async def test_a_cancellation_of_the_methods_own_is_no_cancelled_call(
    served: Served, ended: Ended
) -> None:
    served.intents.answer = raising(asyncio.CancelledError())
    with pytest.raises(Internal):
        await served.intent_stub().GetIntent(REQUEST)
    span = await served.span()
    assert span.attributes is not None
    assert span.attributes[semantic.RPC_RESPONSE_STATUS_CODE] == "INTERNAL"
    assert ended() == {"INTERNAL": 1}


async def test_a_traceparent_that_is_none_starts_a_trace_of_its_own(served: Served) -> None:
    await served.intent_stub().GetIntent(REQUEST, metadata=(("traceparent", "00-zz-zz-01"),))
    assert (await served.span()).parent is None


async def test_a_call_whose_caller_does_not_record_it_is_not_recorded(served: Served) -> None:
    inside: list[trace.SpanContext] = []

    async def answer(request: object, context: Context) -> GetIntentResponse:
        inside.append(trace.get_current_span().get_span_context())
        return await empty_intent(REQUEST, context)

    served.intents.answer = answer
    parent = f"00-{0xABC:032x}-{0xDEF:016x}-00"
    sent = (("traceparent", parent), ("tracestate", "vendor=kept"))
    await served.intent_stub().GetIntent(REQUEST, metadata=sent)
    assert served.spans.get_finished_spans() == ()
    # Whoever records below has the caller itself for a parent.
    assert (inside[0].trace_id, inside[0].span_id) == (0xABC, 0xDEF)
    assert inside[0].trace_state == {"vendor": "kept"}


async def test_a_method_can_add_to_its_span(served: Served) -> None:
    async def answer(request: object, context: Context) -> GetIntentResponse:
        span = trace.get_current_span()
        assert span.is_recording()
        span.set_attributes({semantic.ACTION: "review"})
        span.add_event("half way", {"done": 1})
        return await empty_intent(REQUEST, context)

    served.intents.answer = answer
    await served.intent_stub().GetIntent(REQUEST)
    span = await served.span()
    assert span.attributes is not None
    assert span.attributes[semantic.ACTION] == "review"
    assert [event.name for event in span.events] == ["half way"]
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.start_time < span.end_time


def test_what_begins_here_is_sampled_and_a_callers_decision_is_kept() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(0.25)), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    spans = SpanFactory.of(provider.get_tracer("test"))
    assert spans is not None
    roots = [spans.start("root", None, {}) for _ in range(1000)]
    recorded = [root for root in roots if root is not None]
    assert 150 < len(recorded) < 350
    sampled = trace.SpanContext(1, 2, True, trace.TraceFlags(1))
    child = spans.start("child", sampled, {})
    assert child is not None
    child.end()
    child.end()
    [span] = kept.get_finished_spans()
    assert span.parent == sampled
    assert span.resource == provider.resource
    assert spans.start("child", trace.SpanContext(1, 2, True, trace.TraceFlags(0)), {}) is None


def test_the_exporter_takes_it_like_any_other_span() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    spans = SpanFactory.of(provider.get_tracer("test"))
    assert spans is not None
    ours = spans.start(METHOD, None, {semantic.RPC_METHOD: METHOD})
    assert ours is not None
    ours.record_exception(ValueError("boom"))
    ours.set_status(StatusCode.ERROR, "INTERNAL")
    ours.end()
    with provider.get_tracer("test").start_as_current_span(
        METHOD, kind=SpanKind.SERVER, attributes={semantic.RPC_METHOD: METHOD}
    ) as theirs:
        theirs.record_exception(ValueError("boom"))
        theirs.set_status(StatusCode.ERROR, "INTERNAL")
    first, second = (
        encode_spans([span]).resource_spans[0].scope_spans[0].spans[0]
        for span in kept.get_finished_spans()
    )
    assert (first.name, first.kind, first.status) == (second.name, second.kind, second.status)
    assert first.attributes == second.attributes
    assert first.flags == second.flags
    keys = [[each.key for each in span.events[0].attributes] for span in (first, second)]
    assert keys[0] == keys[1]

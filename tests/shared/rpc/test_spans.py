"""Goal: the span and the figures of a call say how it really ended.

Method: calls that end in every way there is; spans are kept in memory, figures are read back.
"""

import asyncio

import grpc
import pytest
from fencepost.dispatcher.v1.intents_pb2 import GetIntentRequest, GetIntentResponse
from fencepost.errors import FencepostError, Internal, LeaseLost, Overloaded
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, StatusCode

from shared import semantic
from shared.metrics import REGISTRY
from tests.shared.rpc.raw import raw_stub
from tests.shared.rpc.served import Context, Served, empty_intent
from tests.shared.rpc.test_statuses import raising
from tests.waiting import until

METHOD = "fencepost.dispatcher.v1.IntentService/GetIntent"
REQUEST = GetIntentRequest(intent_id=1)


async def forever(_request: object, _context: Context) -> GetIntentResponse:
    await asyncio.Event().wait()
    return GetIntentResponse()


async def aborting(_request: object, context: Context) -> GetIntentResponse:
    await context.abort(grpc.StatusCode.DATA_LOSS, "by hand")


def figure(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, {"method": METHOD} | labels) or 0


async def test_a_good_call(served: Served) -> None:
    before = figure("rpc_server_duration_seconds_count", code="OK")
    await served.intent_stub().GetIntent(REQUEST)
    span = await served.span()
    assert (span.name, span.kind, span.parent) == (METHOD, SpanKind.SERVER, None)
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes == {
        semantic.RPC_SYSTEM_NAME: "grpc",
        semantic.RPC_METHOD: METHOD,
        semantic.RPC_RESPONSE_STATUS_CODE: "OK",
    }
    assert figure("rpc_server_duration_seconds_count", code="OK") == before + 1
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
    served: Served, error: Exception, code: str, reason: str, status: StatusCode
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


async def test_a_call_whose_caller_went_away_is_cancelled_and_its_work_stops(
    served: Served,
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
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_call_whose_deadline_passed_says_so(served: Served) -> None:
    served.intents.answer = forever
    with pytest.raises(FencepostError) as refused:
        await served.intent_stub().GetIntent(REQUEST, timeout=0.2)
    assert refused.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
    span = await served.span()
    assert span.attributes is not None
    assert span.attributes[semantic.RPC_RESPONSE_STATUS_CODE] == "DEADLINE_EXCEEDED"
    assert span.status.status_code is StatusCode.ERROR


async def test_an_abort_by_hand_is_seen_as_what_the_caller_saw(served: Served) -> None:
    served.intents.answer = aborting
    with pytest.raises(FencepostError) as refused:
        await served.intent_stub().GetIntent(REQUEST)
    assert refused.value.code is grpc.StatusCode.DATA_LOSS
    span = await served.span()
    assert span.attributes is not None
    assert span.attributes[semantic.RPC_RESPONSE_STATUS_CODE] == "DATA_LOSS"


async def test_a_cancellation_of_the_methods_own_is_no_cancelled_call(served: Served) -> None:
    served.intents.answer = raising(asyncio.CancelledError())
    with pytest.raises(Internal):
        await served.intent_stub().GetIntent(REQUEST)
    span = await served.span()
    assert span.attributes is not None
    assert span.attributes[semantic.RPC_RESPONSE_STATUS_CODE] == "INTERNAL"


async def test_a_traceparent_that_is_none_starts_a_trace_of_its_own(served: Served) -> None:
    await served.intent_stub().GetIntent(REQUEST, metadata=(("traceparent", "00-zz-zz-01"),))
    assert (await served.span()).parent is None

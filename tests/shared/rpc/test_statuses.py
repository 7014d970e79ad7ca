"""Goal: a caller gets the error that was raised, as its class, and never a word of any other.

Method: a servicer raises, over a real connection; what the wire carries is looked at, too.
"""

import asyncio
from typing import Any

import grpc
import pytest
from fencepost.dispatcher.v1 import work_pb2
from fencepost.dispatcher.v1.intents_pb2 import GetIntentRequest, GetIntentResponse
from fencepost.dispatcher.v1.intents_pb2_grpc import IntentServiceStub
from fencepost.errors import FencepostError, FieldInvalid, Internal, Refusal
from fencepost.metadata import RETRY_PUSHBACK
from structlog.testing import capture_logs

from tests.sdk.error_samples import SAMPLES
from tests.shared.rpc.raw import raw_call, raw_stub
from tests.shared.rpc.served import Context, Served

REQUEST = GetIntentRequest(intent_id=1)
SECRET = "SELECT secret FROM api_keys WHERE password = 'hunter2'"


def raising(error: BaseException) -> Any:
    async def answer(_request: object, _context: Context) -> GetIntentResponse:
        raise error

    return answer


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: error.reason)
async def test_every_error_comes_back_as_its_class(served: Served, error: Refusal) -> None:
    served.intents.answer = raising(error)
    with pytest.raises(FencepostError) as caught:
        await raw_stub(served).GetIntent(REQUEST)
    assert type(caught.value) is type(error)
    assert vars(caught.value) == vars(error)


async def test_a_retriable_error_tells_grpc_when_to_come_again(served: Served) -> None:
    [error] = [sample for sample in SAMPLES if sample.reason == "OVERLOADED"]
    served.intents.answer = raising(error)
    call = await raw_call(served, REQUEST.SerializeToString())
    assert await call.code() is grpc.StatusCode.UNAVAILABLE
    assert dict(await call.trailing_metadata())[RETRY_PUSHBACK] == "1234"


async def test_nothing_of_an_unknown_error_reaches_the_caller(served: Served) -> None:
    served.intents.answer = raising(RuntimeError(SECRET))
    call = await raw_call(served, REQUEST.SerializeToString())
    sent = f"{await call.details()} {await call.trailing_metadata()!r}"
    assert await call.code() is grpc.StatusCode.INTERNAL
    assert "hunter2" not in sent
    assert "RuntimeError" not in sent


async def test_the_fault_is_in_the_log_and_the_span_under_its_error_id(served: Served) -> None:
    served.intents.answer = raising(RuntimeError(SECRET))
    with capture_logs() as entries:
        with pytest.raises(Internal) as caught:
            await served.intent_stub().GetIntent(REQUEST)
        span = await served.span()
    [entry] = [entry for entry in entries if entry.get("error_id")]
    assert entry["error_id"] == caught.value.error_id
    assert str(entry["exc_info"]) == SECRET
    assert caught.value.error_id in str(caught.value)
    [event] = span.events
    assert event.attributes is not None
    assert event.attributes["exception.message"] == SECRET


async def wrong_type(_request: object, _context: Context) -> Any:
    return "no message"


async def test_an_answer_of_the_wrong_type_is_a_fault_of_ours(served: Served) -> None:
    served.intents.answer = wrong_type
    with pytest.raises(Internal):
        await served.intent_stub().GetIntent(REQUEST)


async def test_a_cancellation_that_escapes_the_method_is_answered(served: Served) -> None:
    served.intents.answer = raising(asyncio.CancelledError())
    with pytest.raises(Internal):
        await served.intent_stub().GetIntent(REQUEST)


async def test_a_method_that_is_not_written_yet_says_so(served: Served) -> None:
    with pytest.raises(FencepostError, match="does not implement") as caught:
        await served.work_stub(api_key=served.api_key).FetchPayload(payload_request())
    assert caught.value.code is grpc.StatusCode.UNIMPLEMENTED


def payload_request() -> work_pb2.FetchPayloadRequest:
    request = work_pb2.FetchPayloadRequest(intent_id=1)
    request.fence.key, request.fence.action, request.fence.epoch = "k", "a", 1
    request.fence.holder = "h"
    return request


@pytest.mark.guarantee("X4")
async def test_an_invalid_field_is_named_and_nothing_runs(served: Served) -> None:
    call = await raw_call(served, GetIntentRequest(intent_id=-1).SerializeToString())
    assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "intent_id: must be greater than 0" in await call.details()
    assert served.intents.calls == 0


@pytest.mark.guarantee("X4")
async def test_bytes_that_are_no_message_are_invalid(served: Served) -> None:
    call = await raw_call(served, b"\xff\xff\xff")
    assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "request: " in await call.details()
    assert served.intents.calls == 0


@pytest.mark.guarantee("X4")
async def test_the_client_does_not_even_send_it(served: Served) -> None:
    with pytest.raises(FieldInvalid):
        await IntentServiceStub(served.channel()).GetIntent(GetIntentRequest())
    assert served.spans.get_finished_spans() == ()


async def test_a_huge_list_of_faults_still_reaches_the_caller(served: Served) -> None:
    violations = [(f"labels['{'ü' * 300}{number}']", "x" * 500) for number in range(1000)]
    served.intents.answer = raising(FieldInvalid(violations=violations))
    with pytest.raises(FieldInvalid) as caught:
        await served.intent_stub().GetIntent(REQUEST)
    assert caught.value.violations

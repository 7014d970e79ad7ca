"""Those who submit at the same time share a call to a real server; each keeps its own outcome."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from fencepost.batching import BatchLimits
from fencepost.channel import ChannelSettings, connect
from fencepost.errors import DatabaseUnavailable, DeliveryConflict, Draining, FieldInvalid
from fencepost.ingress.v1 import ingress_pb2 as pb
from fencepost.ingress.v1 import ingress_pb2_grpc
from fencepost.status import to_status
from fencepost.submitting import Submitter
from grpc import aio
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_trace_id

from tests.waiting import until

CALLERS = 32
CONFLICT = DeliveryConflict(endpoint="github", delivery_id="conflict")


@dataclass
class Ingress(ingress_pb2_grpc.IngressServiceServicer):
    """Answers by the delivery id, once its gate is open."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[list[pb.SubmitDeliveryRequest]] = field(default_factory=list)

    async def SubmitDeliveries(  # noqa: N802
        self,
        request: pb.SubmitDeliveriesRequest,
        context: object,  # noqa: ARG002
    ) -> pb.SubmitDeliveriesResponse:
        self.calls.append(list(request.deliveries))
        await self.gate.wait()
        return pb.SubmitDeliveriesResponse(results=[_result(each) for each in request.deliveries])


def _result(delivery: pb.SubmitDeliveryRequest) -> pb.SubmitDeliveryResult:
    if delivery.delivery_id == "conflict":
        return pb.SubmitDeliveryResult(refusal=to_status(CONFLICT))
    if delivery.delivery_id == "away":
        return pb.SubmitDeliveryResult(refusal=to_status(DatabaseUnavailable()))
    taken = pb.SubmitDeliveryResponse(first_delivery_id=delivery.delivery_id)
    return pb.SubmitDeliveryResult(taken=taken)


@pytest.fixture
async def ingress() -> Ingress:
    return Ingress()  # type: ignore[abstract]  # one RPC is enough


@pytest.fixture
async def target(ingress: Ingress) -> AsyncIterator[str]:
    server = aio.server()
    ingress_pb2_grpc.add_IngressServiceServicer_to_server(ingress, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    ingress.gate.set()
    await server.stop(None)


@pytest.fixture
async def submitter(target: str) -> AsyncIterator[Submitter]:
    limits = BatchLimits(large_item_bytes=1000)
    async with (
        connect(ChannelSettings(target=target)) as channel,
        Submitter(channel, limits=limits) as submitter,
    ):
        yield submitter


def delivery(delivery_id: str, body: bytes = b"{}") -> pb.SubmitDeliveryRequest:
    return pb.SubmitDeliveryRequest(
        endpoint="github", delivery_id=delivery_id, event="pull_request", body=body
    )


async def test_those_who_submit_at_the_same_time_share_a_call(
    ingress: Ingress, submitter: Submitter
) -> None:
    first = asyncio.create_task(submitter.submit(delivery("first")))
    await until(lambda: ingress.calls, what="the first call")
    names = [f"d-{number}" for number in range(CALLERS)]
    others = [asyncio.create_task(submitter.submit(delivery(name))) for name in names]
    await asyncio.sleep(0)
    ingress.gate.set()

    taken = await asyncio.gather(first, *others)

    assert [each.first_delivery_id for each in taken] == ["first", *names]
    assert [len(call) for call in ingress.calls] == [1, CALLERS]


async def test_each_is_told_its_own_refusal_as_its_class(
    ingress: Ingress, submitter: Submitter
) -> None:
    ingress.gate.set()

    names = ("conflict", "d-1", "away")
    conflict, taken, away = [asyncio.create_task(submitter.submit(delivery(n))) for n in names]

    with pytest.raises(DeliveryConflict) as refused:
        await conflict
    with pytest.raises(DatabaseUnavailable):
        await away

    assert refused.value.delivery_id == "conflict"
    assert (await taken).first_delivery_id == "d-1"
    assert len(ingress.calls) == 1


async def test_what_breaks_a_rule_is_not_sent(ingress: Ingress, submitter: Submitter) -> None:
    ingress.gate.set()

    wrong, taken = await asyncio.gather(
        *(submitter.submit(delivery(name)) for name in ("", "d-1")), return_exceptions=True
    )

    assert isinstance(wrong, FieldInvalid)
    assert isinstance(taken, pb.SubmitDeliveryResponse)
    assert [len(call) for call in ingress.calls] == [1]


async def test_each_delivery_carries_the_trace_of_who_submitted_it(
    ingress: Ingress, submitter: Submitter
) -> None:
    ingress.gate.set()
    tracer = TracerProvider().get_tracer("test")

    async def traced(name: str) -> str:
        with tracer.start_as_current_span(name) as span:
            await submitter.submit(delivery(name))
        return format_trace_id(span.get_span_context().trace_id)

    traces = await asyncio.gather(*(traced(name) for name in ("a", "b")))

    [call] = ingress.calls
    assert [each.traceparent.split("-")[1] for each in call] == traces


async def test_a_large_body_goes_in_a_call_of_its_own(
    ingress: Ingress, submitter: Submitter
) -> None:
    ingress.gate.set()

    await asyncio.gather(
        *(submitter.submit(delivery(name, b"x" * 2000)) for name in ("a", "b")),
        submitter.submit(delivery("c")),
    )

    assert [len(call) for call in ingress.calls] == [1, 1, 1]


async def test_closing_answers_everyone(ingress: Ingress, submitter: Submitter) -> None:
    under_way = asyncio.create_task(submitter.submit(delivery("d-1")))
    await until(lambda: ingress.calls, what="the call")
    closing = asyncio.create_task(submitter.close())
    ingress.gate.set()

    await closing

    assert under_way.result().first_delivery_id == "d-1"
    with pytest.raises(Draining):
        await submitter.submit(delivery("d-2"))

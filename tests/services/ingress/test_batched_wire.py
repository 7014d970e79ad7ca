"""Both doors of a real process share their transactions; each delivery keeps its own trace."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from fencepost.channel import ChannelSettings, connect
from fencepost.ingress.v1 import ingress_pb2, ingress_pb2_grpc
from fencepost.metadata import TRACEPARENT
from fencepost.submitting import Submitter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_trace_id

from tests.database_server import DatabaseServer
from tests.services.ingress.pulls import TENANT, pull
from tests.services.ingress.test_servicer import add_key, stored_traceparents
from tests.services.ingress.webhooks.posting import Door, opened

CALLERS = 32


@pytest.fixture(scope="module")
def door(database_server: DatabaseServer) -> Iterator[Door]:
    with opened(database_server) as door:
        yield door


async def test_concurrent_submissions_make_few_transactions_and_keep_their_traces(
    door: Door,
) -> None:
    key = add_key(door.owner, TENANT, ["deliveries_write"])
    traces = [f"{number:032x}" for number in range(1, CALLERS + 1)]

    async with connect(ChannelSettings(target=door.ingress.grpc, api_key=key)) as channel:
        stub: Any = ingress_pb2_grpc.IngressServiceStub(channel)

        async def submit(number: int, trace_id: str) -> int:
            request = ingress_pb2.SubmitDeliveryRequest(
                endpoint="github",
                delivery_id=trace_id,
                event="pull_request",
                body=pull(number=number),
            )
            parent = ((TRACEPARENT, f"00-{trace_id}-{1:016x}-01"),)
            response = await stub.SubmitDelivery(request, metadata=parent)
            return int(response.outcome)

        calls = (submit(number, trace_id) for number, trace_id in enumerate(traces, 1))
        outcomes = await asyncio.gather(*calls)

    assert set(outcomes) == {ingress_pb2.DELIVERY_OUTCOME_ACCEPTED}
    row = door.owner.execute("SELECT count(DISTINCT xmin::text) FROM fencepost.deliveries")
    assert row.fetchall()[0][0] <= CALLERS // 2
    for trace_id in traces:
        kept = [parent.split("-")[1] for parent in stored_traceparents(door, trace_id)]
        assert kept == [trace_id, trace_id]


async def test_those_who_submit_through_the_sdk_share_calls_and_keep_their_traces(
    door: Door,
) -> None:
    key = add_key(door.owner, TENANT, ["deliveries_write"])
    tracer = TracerProvider().get_tracer("test")
    reach = ChannelSettings(target=door.ingress.grpc, api_key=key)

    async with connect(reach) as channel, Submitter(channel) as submitter:

        async def submit(number: int) -> str:
            delivery = ingress_pb2.SubmitDeliveryRequest(
                endpoint="github",
                delivery_id=f"sdk-{number}",
                event="pull_request",
                body=pull(number=number),
            )
            with tracer.start_as_current_span("submit") as span:
                taken = await submitter.submit(delivery)
            assert taken.outcome == ingress_pb2.DELIVERY_OUTCOME_ACCEPTED
            return format_trace_id(span.get_span_context().trace_id)

        numbers = range(1000, 1000 + CALLERS)
        traces = await asyncio.gather(*(submit(number) for number in numbers))

    for number, trace_id in zip(numbers, traces, strict=True):
        kept = [parent.split("-")[1] for parent in stored_traceparents(door, f"sdk-{number}")]
        assert kept == [trace_id, trace_id]
    row = door.owner.execute(
        "SELECT count(DISTINCT xmin::text) FROM fencepost.deliveries WHERE delivery_id LIKE 'sdk-%'"
    )
    assert row.fetchall() == [(1,)]

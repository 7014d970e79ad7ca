"""Goal: every call carries a deadline, the key, the tenant and the trace; losses are survived.

Method: a bare grpc.aio server that records what arrives, and comes and goes.
"""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import pytest
from fencepost.channel import (
    RECONNECT_BACKOFF_MS_MAX,
    ChannelSettings,
    channel_options,
    connect,
)
from fencepost.dispatcher.v1.intents_pb2 import GetIntentRequest, GetIntentResponse
from fencepost.dispatcher.v1.intents_pb2_grpc import IntentServiceStub
from fencepost.errors import DeadlineTooShort, FencepostError
from fencepost.tls import Tls
from grpc import aio
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from tests.waiting import until

GET_INTENT = "/fencepost.dispatcher.v1.IntentService/GetIntent"
PUBLISH = "/fencepost.publisher.v1.PublishService/PublishReview"
REQUEST = GetIntentRequest(intent_id=1)
BACKOFF_JITTER = 1.2
BACK_WITHIN_MS = 5000
ROUNDING_S = 0.1
"""gRPC rounds a deadline up where it writes it into the header."""


@dataclass
class Recorded:
    """A server that answers anything with nothing, after failing as often as it is told."""

    address: str = ""
    failures: int = 0
    metadata: list[dict[str, str | bytes]] = field(default_factory=list)
    time_remaining_s: list[float | None] = field(default_factory=list)

    async def handle(self, _raw: bytes, context: aio.ServicerContext[bytes, bytes]) -> bytes:
        self.metadata.append(dict(context.invocation_metadata() or ()))
        self.time_remaining_s.append(context.time_remaining())
        if self.failures:
            self.failures -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        return b""


class AnyMethod(grpc.GenericRpcHandler):
    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded

    def service(
        self,
        handler_call_details: grpc.HandlerCallDetails,  # noqa: ARG002
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        return grpc.unary_unary_rpc_method_handler(self._recorded.handle)


@asynccontextmanager
async def listening(recorded: Recorded, address: str = "127.0.0.1:0") -> AsyncIterator[Recorded]:
    server = aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers([AnyMethod(recorded)])
    port = server.add_insecure_port(address)
    recorded.address = f"127.0.0.1:{port}"
    await server.start()
    try:
        yield recorded
    finally:
        await server.stop(None)


@pytest.fixture
async def recorded() -> AsyncIterator[Recorded]:
    async with listening(Recorded()) as recorded:
        yield recorded


async def get(settings: ChannelSettings, **options: object) -> None:
    async with connect(settings) as channel:
        await IntentServiceStub(channel).GetIntent(REQUEST, **options)  # type: ignore[arg-type]  # whatever a test gives


async def test_key_and_tenant_travel_with_every_call(recorded: Recorded) -> None:
    await get(ChannelSettings(target=recorded.address, api_key="fp_a_b", tenant="acme"))
    assert recorded.metadata[0]["authorization"] == "Bearer fp_a_b"
    assert recorded.metadata[0]["fencepost-tenant"] == "acme"
    assert "traceparent" not in recorded.metadata[0]
    await get(ChannelSettings(target=recorded.address))
    assert "authorization" not in recorded.metadata[1]


async def test_the_current_trace_travels_too(recorded: Recorded) -> None:
    state = TraceState([("vendor", "x")])
    context = SpanContext(
        0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1), trace_state=state
    )
    with trace.use_span(NonRecordingSpan(context)):
        await get(ChannelSettings(target=recorded.address))
    assert recorded.metadata[0]["traceparent"] == f"00-{0xABC:032x}-{0xDEF:016x}-01"
    assert recorded.metadata[0]["tracestate"] == "vendor=x"


async def test_there_is_always_a_deadline_and_the_callers_own_wins(recorded: Recorded) -> None:
    settings = ChannelSettings(target=recorded.address, deadline_ms=3000)
    await get(settings)
    await get(settings, timeout=1.0)
    given, own = recorded.time_remaining_s
    assert given is not None
    assert 1.5 < given < 3 + ROUNDING_S
    assert own is not None
    assert 0 < own < 1 + ROUNDING_S


async def test_what_the_caller_gives_comes_last(recorded: Recorded) -> None:
    settings = ChannelSettings(target=recorded.address, tenant="acme")
    await get(settings, metadata=(("fencepost-tenant", "globex"),))
    assert recorded.metadata[0]["fencepost-tenant"] == "globex"


async def test_unavailable_is_retried_for_a_method_that_may_be(recorded: Recorded) -> None:
    recorded.failures = 2
    await get(ChannelSettings(target=recorded.address))
    assert len(recorded.metadata) == 3


@pytest.mark.guarantee("P3")
async def test_a_publish_call_is_sent_once(recorded: Recorded) -> None:
    recorded.failures = 1
    async with connect(ChannelSettings(target=recorded.address)) as channel:
        publish: aio.UnaryUnaryMultiCallable[GetIntentRequest, bytes] = channel.unary_unary(
            PUBLISH, GetIntentRequest.SerializeToString
        )
        with pytest.raises(FencepostError) as failed:
            await publish(REQUEST)
    assert (failed.value.code, len(recorded.metadata)) == (grpc.StatusCode.UNAVAILABLE, 1)


async def test_a_server_that_comes_back_is_found_within_seconds() -> None:
    recorded = Recorded()
    async with listening(recorded):
        settings = ChannelSettings(target=recorded.address)
        channel = connect(settings)
        stub = IntentServiceStub(channel)
        await stub.GetIntent(REQUEST)
    with pytest.raises(FencepostError) as away:
        await stub.GetIntent(REQUEST, timeout=1)
    assert away.value.code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}

    async def answered() -> bool:
        try:
            await stub.GetIntent(REQUEST, timeout=0.5)
        except FencepostError:
            return False
        return True

    async with listening(recorded, recorded.address):
        await until(answered, deadline_s=BACK_WITHIN_MS / 1000, what="the channel to reconnect")
    await channel.close()


def test_the_reconnect_cap_leaves_time_to_be_back() -> None:
    assert RECONNECT_BACKOFF_MS_MAX * BACKOFF_JITTER < BACK_WITHIN_MS
    options = dict(channel_options(ChannelSettings(target="x:1")))
    assert options["grpc.max_reconnect_backoff_ms"] == RECONNECT_BACKOFF_MS_MAX


@pytest.mark.parametrize(
    "target",
    ["127.0.0.1:{port}", "localhost:{port}", "dns:///127.0.0.1:{port}", "ipv4:127.0.0.1:{port}"],
)
async def test_loopback_is_plain_by_itself(recorded: Recorded, target: str) -> None:
    port = recorded.address.rpartition(":")[2]
    await get(ChannelSettings(target=target.format(port=port)))


async def test_elsewhere_nothing_is_sent_in_clear_unless_allowed(recorded: Recorded) -> None:
    """127.0.0.1 under a name that could be anybody's."""
    port = recorded.address.rpartition(":")[2]
    elsewhere = f"ipv4:127.0.0.1:{port},192.0.2.1:{port}"
    with pytest.raises(FencepostError):
        await get(ChannelSettings(target=elsewhere, api_key="fp_a_b"), timeout=1.0)
    assert recorded.metadata == []
    await get(ChannelSettings(target=elsewhere, allow_plaintext=True), timeout=5.0)
    assert len(recorded.metadata) == 1


async def test_tls_is_used_on_loopback_when_given(recorded: Recorded) -> None:
    with pytest.raises(FencepostError):
        await get(ChannelSettings(target=recorded.address, tls=Tls()), timeout=1.0)
    assert recorded.metadata == []


async def test_a_deadline_that_passes_is_the_same_error_as_the_servers() -> None:
    # The kernel accepts the connection, and nobody ever reads from it.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DeadlineTooShort):
            await get(ChannelSettings(target=target), timeout=0.2)


def test_a_secret_is_not_shown() -> None:
    settings = ChannelSettings(target="x:1", api_key="fp_a_hunter2", tls=Tls(key=b"hunter2"))
    assert "hunter2" not in repr(settings)


async def test_a_call_can_be_asked_about(recorded: Recorded) -> None:
    async with connect(ChannelSettings(target=recorded.address)) as channel:
        call = IntentServiceStub(channel).GetIntent(REQUEST)
        assert isinstance(await call, GetIntentResponse)
        assert (await call.code(), call.done(), call.cancelled()) == (
            grpc.StatusCode.OK,
            True,
            False,
        )
        assert list(await call.trailing_metadata()) == []
        for streams_one_way in (channel.unary_stream, channel.stream_unary):
            with pytest.raises(NotImplementedError, match="streams one way only"):
                streams_one_way(GET_INTENT)

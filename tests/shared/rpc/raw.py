"""Calls from a client without this SDK: no deadline, no retries, bytes as they are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fencepost.channel import Channel, ChannelSettings
from fencepost.dispatcher.v1.intents_pb2_grpc import IntentServiceStub
from grpc import aio
from grpc_health.v1 import health_pb2

from tests.shared.rpc.served import Served

GET_INTENT = "/fencepost.dispatcher.v1.IntentService/GetIntent"

Unary = aio.UnaryUnaryMultiCallable[bytes, bytes]
Stream = aio.StreamUnaryMultiCallable[bytes, bytes]


@asynccontextmanager
async def own_connection(served: Served) -> AsyncIterator[aio.Channel]:
    """A channel that shares its connection with no other."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with aio.insecure_channel(served.server.address, options=options) as channel:
        yield channel


async def raw_call(
    served: Served, request: bytes, *, timeout_s: float | None = 5
) -> aio.UnaryUnaryCall[bytes, bytes]:
    """A GetIntent that has ended, with whatever status."""
    async with own_connection(served) as channel:
        send: Unary = channel.unary_unary(GET_INTENT)
        metadata = (("authorization", f"Bearer {served.api_key}"),)
        call = send(request, metadata=metadata, timeout=timeout_s)
        await call.code()
        return call


def raw_stub(served: Served) -> Any:
    """A stub whose channel has no service config, so nothing is retried."""
    settings = ChannelSettings(target=served.server.address, api_key=served.api_key)
    channel = Channel(aio.insecure_channel(served.server.address), settings)
    served.channels.append(channel)
    return IntentServiceStub(channel)


async def health_of(channel: aio.Channel, service: str = "") -> int:
    """What the health service answers now."""
    check: Unary = channel.unary_unary("/grpc.health.v1.Health/Check")
    request = health_pb2.HealthCheckRequest(service=service)
    answer = await check(request.SerializeToString())
    return health_pb2.HealthCheckResponse.FromString(answer).status

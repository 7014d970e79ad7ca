"""A real server on a loopback port; its servicers are the contract's and do what a test says."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.channel import Channel, ChannelSettings, connect
from fencepost.common.v1.access_pb2 import SCOPE_INTENTS_READ, SCOPE_INTENTS_WRITE, SCOPE_WORK
from fencepost.dispatcher.v1 import intents_pb2, intents_pb2_grpc, work_pb2, work_pb2_grpc
from google.protobuf.message import Message
from grpc import aio
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr

from shared.credentials import Credential, new_credential
from shared.rpc.authentication import Authenticator, Lookup
from shared.rpc.caller import scope_name
from shared.rpc.key_store import KeyRow
from shared.rpc.open_calls import OpenCalls
from shared.rpc.pipeline import Pipeline
from shared.rpc.request_room import RequestRoom
from shared.rpc.server import RpcServer
from shared.rpc.server_info import ServerInfo, ServerInfoServicer, limits_of
from shared.rpc.server_span import SpanFactory
from shared.settings import RuntimeSettings
from tests.waiting import until

ALL_SCOPES = (SCOPE_INTENTS_READ, SCOPE_INTENTS_WRITE, SCOPE_WORK)
SESSION_ID = "9b2f1c7e-52fb-4a3c-8a46-3c4a2f3a7f01"

Context = aio.ServicerContext[Any, Any]


async def empty_intent(_request: Message, _context: Context) -> intents_pb2.GetIntentResponse:
    """The answer when a test tells none."""
    return intents_pb2.GetIntentResponse()


class Intents(intents_pb2_grpc.IntentServiceServicer):
    """Counts its calls; GetIntent does what `answer` does, EnqueueIntents answers nothing."""

    def __init__(self) -> None:
        self.calls = 0
        self.answer: Callable[[Any, Context], Awaitable[Message]] = empty_intent

    async def GetIntent(self, request: Any, context: Context) -> Any:  # noqa: N802
        self.calls += 1
        return await self.answer(request, context)

    async def EnqueueIntents(self, request: Any, context: Context) -> Any:  # noqa: ARG002, N802
        self.calls += 1
        return intents_pb2.EnqueueIntentsResponse()


class Sessions(work_pb2_grpc.DispatchServiceServicer):
    """Welcomes, then answers each heartbeat; ends when the worker closes or it drains."""

    def __init__(self, draining: asyncio.Event) -> None:
        self._draining = draining
        self.ended: list[str] = []

    async def Work(  # noqa: N802
        self,
        request_iterator: AsyncIterator[work_pb2.WorkRequest],
        context: Context,  # noqa: ARG002
    ) -> AsyncGenerator[work_pb2.WorkResponse, None]:
        try:
            async for frame in request_iterator:
                if frame.HasField("hello"):
                    yield work_pb2.WorkResponse(
                        welcome=work_pb2.Welcome(session_id=frame.hello.session_id)
                    )
                if frame.HasField("heartbeat"):
                    yield work_pb2.WorkResponse(heartbeat_ack=work_pb2.HeartbeatAck())
                if frame.HasField("end_drain"):
                    await self._draining.wait()
                    yield work_pb2.WorkResponse(drain=work_pb2.Drain())
                    return
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise
        self.ended.append("closed")


def settings_for(**changes: object) -> RuntimeSettings:
    """Settings of no service in particular; the database is not used."""
    return RuntimeSettings.model_validate(
        {
            "database_url": SecretStr("postgresql://nobody@127.0.0.1:1/none"),
            "grpc_address": "127.0.0.1:0",
            "admin_address": "127.0.0.1:0",
            **changes,
        }
    )


def key_row(
    credential: Credential,
    *,
    tenant: str | None = "acme",
    scopes: Sequence[Any] = ALL_SCOPES,
    ended: bool = False,
) -> KeyRow:
    """The stored row of a credential."""
    return KeyRow(
        key_id=credential.key_id,
        tenant=tenant,
        scopes=tuple(scope_name(scope) for scope in scopes),
        secret_sha256=credential.secret_sha256,
        ended=ended,
    )


class Keys:
    """Keys that a test holds; counts how often it is asked."""

    def __init__(self) -> None:
        self.rows: dict[str, KeyRow] = {}
        self.lookups = 0

    def add(self, **facts: Any) -> str:
        """Stores a new key and returns what its holder sends."""
        credential = new_credential()
        self.rows[credential.key_id] = key_row(credential, **facts)
        return credential.text

    def end(self, text: str) -> None:
        """Revokes a key."""
        key_id = text.split("_")[1]
        self.rows[key_id] = replace(self.rows[key_id], ended=True)

    async def lookup(self, key_ids: Sequence[str]) -> list[KeyRow]:
        self.lookups += 1
        return [self.rows[key_id] for key_id in key_ids if key_id in self.rows]


@dataclass
class Served:
    """A server that runs, and channels to it."""

    server: RpcServer
    pipeline: Pipeline
    intents: Intents
    sessions: Sessions
    spans: InMemorySpanExporter
    api_key: str
    channels: list[Channel] = field(default_factory=list)

    def channel(self, **changes: Any) -> Channel:
        """A client's channel with a good key; `changes` are of ChannelSettings."""
        settings = {"target": self.server.address, "api_key": self.api_key} | changes
        channel = connect(ChannelSettings(**settings))
        self.channels.append(channel)
        return channel

    def intent_stub(self, **changes: Any) -> "intents_pb2_grpc.IntentServiceAsyncStub":
        return intents_pb2_grpc.IntentServiceStub(self.channel(**changes))

    def work_stub(self, **changes: Any) -> "work_pb2_grpc.DispatchServiceAsyncStub":
        return work_pb2_grpc.DispatchServiceStub(self.channel(**changes))

    async def span(self) -> ReadableSpan:
        """The first span that ended."""
        spans = await until(self.spans.get_finished_spans, what="a server span")
        return spans[0]


@asynccontextmanager
async def serving(
    *, lookup: Lookup | None = None, api_key: str = "", **changes: object
) -> AsyncIterator[Served]:
    """A server until the block ends; `changes` are of its settings."""
    settings = settings_for(**changes)
    keys = Keys()
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    calls = OpenCalls(concurrent_rpcs_max=settings.concurrent_rpcs_max)
    pipeline = Pipeline(
        calls=calls,
        room=RequestRoom(
            bytes_max=settings.request_buffer_bytes_max,
            message_limit_bytes=settings.message_limit_bytes,
        ),
        authenticator=Authenticator(
            lookup or keys.lookup,
            cache_ms=settings.key_cache_ms,
            lookup_timeout_ms=settings.key_lookup_timeout_ms,
        ),
        spans=SpanFactory.of(provider.get_tracer("test")),
        default_deadline_ms=settings.request_default_deadline_ms,
        may_serve=lambda: None,
    )
    intents, sessions = Intents(), Sessions(calls.draining)  # type: ignore[abstract]  # on purpose
    info = ServerInfo(service="test", limits=limits_of(settings), schema_revision_found=lambda: 7)
    server = RpcServer(settings, pipeline, [intents, sessions, ServerInfoServicer(info)])
    await server.start()
    await server.health.set(serving=True)
    served = Served(server, pipeline, intents, sessions, spans, api_key or keys.add())
    try:
        yield served
    finally:
        for channel in served.channels:
            await channel.close()
        await server.drain(within_s=0)

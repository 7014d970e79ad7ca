"""What the gRPC runtime costs: an echo on it, with everything on, against a bare grpc.aio echo.

Each server is a process of its own, driven with the same bare client from another, in turns, so
that what else the machine does falls on all of them. Told are calls a second and the server's own
processor time a call.

- bare: grpc.aio and nothing else.
- full: admission, deadline, key, scope, validation, figures; as shipped, without a collector.
- recorded: the same with every call recorded as a span, by an exporter that drops it.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from fencepost.common.v1.access_pb2 import SCOPE_INTENTS_READ
from fencepost.dispatcher.v1.intents_pb2 import GetIntentRequest, GetIntentResponse
from fencepost.dispatcher.v1.intents_pb2_grpc import (
    IntentServiceServicer,
    IntentServiceStub,
    add_IntentServiceServicer_to_server,
)
from grpc import aio
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from pydantic import SecretStr

from bench.results import Results
from bench.rounds import Effort, medians
from shared.credentials import secret_digest
from shared.rpc.authentication import Authenticator
from shared.rpc.caller import scope_name
from shared.rpc.key_store import KeyRow
from shared.rpc.open_calls import OpenCalls
from shared.rpc.pipeline import Pipeline
from shared.rpc.request_room import RequestRoom
from shared.rpc.server import RpcServer
from shared.rpc.server_span import SpanFactory
from shared.settings import RuntimeSettings

Kind = Literal["bare", "full", "recorded"]
KINDS: Final[tuple[Kind, ...]] = ("bare", "full", "recorded")
KEY_ID, SECRET = "benchmarkkey", "s" * 43
METADATA = (
    ("authorization", f"Bearer fp_{KEY_ID}_{SECRET}"),
    ("traceparent", f"00-{1:032x}-{2:016x}-01"),
)
CLOCK_TICKS_S = os.sysconf("SC_CLK_TCK")


class Echo(IntentServiceServicer):
    """Answers with nothing."""

    async def GetIntent(self, request: object, context: object) -> GetIntentResponse:  # noqa: ARG002, N802
        return GetIntentResponse()


class DroppingExporter(SpanExporter):
    """Takes spans and forgets them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002
        return SpanExportResult.SUCCESS


async def serve_bare() -> None:
    """Prints its address and serves until killed."""
    server = aio.server()
    add_IntentServiceServicer_to_server(Echo(), server)  # type: ignore[abstract]  # one RPC is enough
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"127.0.0.1:{port}\n")
    sys.stdout.flush()
    await server.wait_for_termination()


async def serve_full(spans: SpanFactory | None) -> None:
    """The same on the runtime."""
    settings = RuntimeSettings(
        database_url=SecretStr("postgresql://nobody@127.0.0.1:1/none"),
        grpc_address="127.0.0.1:0",
        admin_address="127.0.0.1:0",
    )
    row = KeyRow(
        key_id=KEY_ID,
        tenant="acme",
        scopes=(scope_name(SCOPE_INTENTS_READ),),
        secret_sha256=secret_digest(SECRET),
        ended=False,
    )

    async def lookup(_key_ids: Sequence[str]) -> list[KeyRow]:
        return [row]

    pipeline = Pipeline(
        calls=OpenCalls(concurrent_rpcs_max=settings.concurrent_rpcs_max),
        room=RequestRoom(
            bytes_max=settings.request_buffer_bytes_max,
            message_limit_bytes=settings.message_limit_bytes,
        ),
        authenticator=Authenticator(
            lookup,
            cache_ms=settings.key_cache_ms,
            lookup_timeout_ms=settings.key_lookup_timeout_ms,
        ),
        spans=spans,
        default_deadline_ms=settings.request_default_deadline_ms,
        may_serve=lambda: None,
    )
    server = RpcServer(settings, pipeline, [Echo()])  # type: ignore[abstract]  # one RPC is enough
    await server.start()
    sys.stdout.write(f"{server.address}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def recording() -> SpanFactory | None:
    """Records everything and drops it."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(DroppingExporter()))
    return SpanFactory.of(provider.get_tracer("bench"))


async def drive(address: str, *, seconds: float, in_flight: int) -> int:
    """Calls as fast as the answers come; returns how many were answered."""
    answered = 0
    async with aio.insecure_channel(address) as channel:
        get_intent = IntentServiceStub(channel).GetIntent
        request = GetIntentRequest(intent_id=1)
        await get_intent(request, metadata=METADATA, timeout=5)
        stop_at = time.perf_counter() + seconds

        async def caller() -> None:
            nonlocal answered
            while time.perf_counter() < stop_at:
                await get_intent(request, metadata=METADATA, timeout=5)
                answered += 1

        await asyncio.gather(*(caller() for _ in range(in_flight)))
    return answered


@dataclass(frozen=True, kw_only=True)
class Round:
    """One kind of server, driven once."""

    kind: Kind
    calls_per_s: float
    server_cpu_us: float


def measure(kind: Kind, *, seconds: float, in_flight: int) -> Round:
    """Starts the server, drives it from another process, kills it."""
    this = [sys.executable, "-m", "bench.runtime_echo"]
    server = subprocess.Popen([*this, "--serve", kind], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().strip()
        before_s = cpu_s(server.pid)
        options = ["--drive", address, "--seconds", str(seconds), "--in-flight", str(in_flight)]
        answered = int(subprocess.check_output([*this, *options], text=True))
        used_s = cpu_s(server.pid) - before_s
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    return Round(
        kind=kind,
        calls_per_s=round(answered / seconds, 1),
        server_cpu_us=round(used_s / answered * 1_000_000, 1),
    )


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, user and system."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_S


def runtime_echo_vs_bare_echo(effort: Effort, results: Results) -> None:
    """The runtime's echo with every call recorded beside the bare one; without a collector, too."""
    rounds: list[Round] = []

    def calls_per_s(kind: Kind) -> float:
        rounds.append(measure(kind, seconds=effort.seconds, in_flight=effort.in_flight))
        return rounds[-1].calls_per_s

    speed = medians({kind: partial(calls_per_s, kind) for kind in KINDS}, effort.rounds)
    for kind in KINDS:
        cpu_us = statistics.median(each.server_cpu_us for each in rounds if each.kind == kind)
        results.figure(f"echo_{kind}_calls_per_s", speed[kind])
        results.figure(f"echo_{kind}_server_cpu_us", cpu_us)
    results.figure("echo_full_vs_bare", speed["full"] / speed["bare"])
    results.ratio("runtime_echo_vs_bare_echo", speed["recorded"] / speed["bare"])


def main() -> None:
    """Is one of the processes that are measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.runtime_echo")
    role = parser.add_mutually_exclusive_group(required=True)
    role.add_argument("--serve", choices=KINDS)
    role.add_argument("--drive", metavar="ADDRESS")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--in-flight", type=int, default=32)
    given = parser.parse_args()
    if given.serve == "bare":
        asyncio.run(serve_bare())
    elif given.serve:
        asyncio.run(serve_full(recording() if given.serve == "recorded" else None))
    else:
        answered = drive(given.drive, seconds=given.seconds, in_flight=given.in_flight)
        sys.stdout.write(f"{asyncio.run(answered)}\n")


if __name__ == "__main__":
    main()

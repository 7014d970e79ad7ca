"""A service for tests of the runtime: one RPC, one web page, one background duty.

GetIntent answers at once, or for intent WAITS_FOR_DRAIN when the service winds down, or for intent
NEVER_ENDS not at all; the page answers when the service winds down. The log has the order.
"""

import asyncio
import threading
from typing import Any

import structlog
from fencepost.dispatcher.v1 import intents_pb2, intents_pb2_grpc
from pydantic import Field
from pydantic_settings import SettingsConfigDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from shared import runtime
from shared.http_server import HttpServer
from shared.settings import Address, RuntimeSettings, load
from shared.ticking import Ticker

WAITS_FOR_DRAIN = 2
NEVER_ENDS = 3

log = structlog.get_logger(__name__)


class SampleSettings(RuntimeSettings):
    """On free ports, with a short grace."""

    model_config = SettingsConfigDict(env_prefix="SAMPLE_")

    grpc_address: Address = Field(default="127.0.0.1:0", description="gRPC.")
    admin_address: Address = Field(default="127.0.0.1:0", description="Admin.")
    drain_grace_ms: int = Field(default=2000, ge=0, le=600_000, description="Grace.")
    after_calls_s: float = Field(default=runtime.AFTER_CALLS_S, description="All other steps.")
    hangs_at_the_end: bool = Field(default=False, description="Whether nothing more happens.")


class SampleIntents(intents_pb2_grpc.IntentServiceServicer):
    """Answers when it is time."""

    def __init__(self, draining: asyncio.Event) -> None:
        self._draining = draining

    async def GetIntent(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        log.info("call begun")
        if request.intent_id == WAITS_FOR_DRAIN:
            await self._draining.wait()
        if request.intent_id == NEVER_ENDS:
            await asyncio.Event().wait()
        log.info("call ended")
        return intents_pb2.GetIntentResponse()


def page(draining: asyncio.Event) -> Starlette:
    """A web application of one page."""

    async def answer(_: Request) -> Response:
        log.info("page begun")
        await draining.wait()
        return PlainTextResponse("at last")

    return Starlette(routes=[Route("/page", answer)])


async def tick() -> None:
    """Is heard of in the log."""
    log.info("tick")


async def close() -> None:
    """So is this."""
    log.info("closed")


async def hang() -> None:
    """Blocks the loop itself, so that no deadline of it comes."""
    log.info("hanging")
    threading.Event().wait()


async def main() -> None:
    """A composition root as every service has one."""
    settings = load(SampleSettings)
    runtime.AFTER_CALLS_S = settings.after_calls_s
    async with runtime.started("sample", settings) as rt:
        await rt.serve(
            [SampleIntents(rt.draining)],  # type: ignore[abstract]  # one RPC is enough
            background=[Ticker("sample", period_ms=100, tick=tick)],
            http=[HttpServer(page(rt.draining), "127.0.0.1:0")],
            closing=[hang if settings.hangs_at_the_end else close],
        )


if __name__ == "__main__":
    asyncio.run(main())

"""A service for tests of the runtime: one RPC, one web page, one background duty, all of them slow.

GetIntent answers after as many milliseconds as the intent's id says; /slow after 300 ms. What the
process does in which order is in its log.
"""

import asyncio
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

PAGE_MS = 300

log = structlog.get_logger(__name__)


class SampleSettings(RuntimeSettings):
    """On free ports, with a short grace."""

    model_config = SettingsConfigDict(env_prefix="SAMPLE_")

    grpc_address: Address = Field(default="127.0.0.1:0", description="gRPC.")
    admin_address: Address = Field(default="127.0.0.1:0", description="Admin.")
    drain_grace_ms: int = Field(default=2000, ge=0, le=600_000, description="Grace.")


class SlowIntents(intents_pb2_grpc.IntentServiceServicer):
    """Takes its time."""

    async def GetIntent(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        log.info("call begun")
        await asyncio.sleep(request.intent_id / 1000)
        log.info("call ended")
        return intents_pb2.GetIntentResponse()


async def page(_: Request) -> Response:
    """Answers after a while."""
    await asyncio.sleep(PAGE_MS / 1000)
    return PlainTextResponse("slow")


async def tick() -> None:
    """Is heard of in the log."""
    log.info("tick")


async def close() -> None:
    """So is this."""
    log.info("closed")


async def main() -> None:
    """A composition root as every service has one."""
    settings = load(SampleSettings)
    async with runtime.started("sample", settings) as rt:
        await rt.serve(
            [SlowIntents()],  # type: ignore[abstract]  # its other method is left as generated
            background=[Ticker("sample", period_ms=100, tick=tick)],
            http=[HttpServer(Starlette(routes=[Route("/slow", page)]), "127.0.0.1:0")],
            closing=[close],
        )


if __name__ == "__main__":
    asyncio.run(main())

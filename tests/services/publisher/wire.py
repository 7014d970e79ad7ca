"""Requests to a publisher over the wire, as a worker or an operator sends them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from fencepost.common.v1 import key_pb2
from fencepost.metadata import AUTHORIZATION, BEARER, TENANT
from fencepost.publisher.v1 import (
    connections_pb2_grpc,
    ledger_pb2_grpc,
    publish_pb2,
    publish_pb2_grpc,
)
from fencepost.status import from_rpc_error
from google.protobuf.message import Message
from grpc import aio

from tests.rows import Work

DEADLINE_S = 30.0


def review_request(work: Work, **changes: Any) -> publish_pb2.PublishReviewRequest:
    """One review under this lease; a change of `fence` replaces fields of it."""
    fence = {name: getattr(work, name) for name in ("key", "action", "epoch", "holder")}
    given = {
        "fence": key_pb2.Fence(**{**fence, **changes.pop("fence", {})}),
        "intent_id": work.intent_id,
        "checkpoint_version": work.version,
        "name": "review",
        "verdict": publish_pb2.REVIEW_VERDICT_COMMENT,
        "body": "Looks right.",
    }
    return publish_pb2.PublishReviewRequest(**{**given, **changes})


class Caller:
    """Calls with one key, without the checks of the SDK's channel."""

    def __init__(self, channel: aio.Channel, api_key: str, tenant: str | None) -> None:
        named = [(TENANT, tenant)] if tenant else []
        self._metadata = ((AUTHORIZATION, BEARER + api_key), *named)
        self._stubs = (
            publish_pb2_grpc.PublishServiceStub(channel),
            ledger_pb2_grpc.LedgerServiceStub(channel),
            connections_pb2_grpc.ConnectionServiceStub(channel),
        )

    async def call(self, rpc: str, request: Message) -> Any:
        """The answer; raises the error class that the server raised."""
        [method] = [getattr(stub, rpc) for stub in self._stubs if hasattr(stub, rpc)]
        try:
            return await method(request, metadata=self._metadata, timeout=DEADLINE_S)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error


@asynccontextmanager
async def calling(
    address: str, api_key: str, *, tenant: str | None = None
) -> AsyncIterator[Caller]:
    """A caller of the server at host:port."""
    async with aio.insecure_channel(address) as channel:
        yield Caller(channel, api_key, tenant)

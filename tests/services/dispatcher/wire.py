"""A worker's side of the wire, frame by frame: no retry, no reconnect, nothing by itself."""

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from fencepost.channel import Channel, ChannelSettings, connect
from fencepost.common.v1 import key_pb2
from fencepost.dispatcher.v1 import (
    checkpoints_pb2,
    checkpoints_pb2_grpc,
    intents_pb2,
    intents_pb2_grpc,
    work_pb2,
    work_pb2_grpc,
)
from grpc import aio

from tests.rows import Work

FRAME_WITHIN_S = 15.0

T = TypeVar("T")

_numbers = itertools.count(1)


def hello(*, session_id: str = "", **changes: Any) -> work_pb2.Hello:
    """A worker that takes reviews."""
    said = {"queues": ["reviews"], "version": "1.0", "labels": {"service.name": "demo-bot"}}
    return work_pb2.Hello(session_id=session_id or str(uuid.uuid4()), **{**said, **changes})


def fence(work: Work) -> key_pb2.Fence:
    """The fence of work that the tests leased."""
    return key_pb2.Fence(key=work.key, action=work.action, epoch=work.epoch, holder=work.holder)


def settle(dispatch: work_pb2.Dispatch, **outcome: Any) -> work_pb2.Settle:
    """An outcome of a dispatch: success, unless another is given."""
    return work_pb2.Settle(
        item_id=next(_numbers),
        fence=dispatch.fence,
        intent_id=dispatch.intent_id,
        **(outcome or {"complete": work_pb2.Complete(result=b"done")}),
    )


def renewal(dispatch: work_pb2.Dispatch) -> work_pb2.Renew:
    """A wish for more lease time."""
    return work_pb2.Renew(
        item_id=next(_numbers), fence=dispatch.fence, intent_id=dispatch.intent_id
    )


def flush(dispatch: work_pb2.Dispatch, **changes: Any) -> checkpoints_pb2.FlushRequest:
    """A first flush of a dispatch."""
    said = {
        "flush_id": str(uuid.uuid4()),
        "state": checkpoints_pb2.RunState(data=b"{}", schema_version=1),
        "analysis_status": checkpoints_pb2.ANALYSIS_STATUS_RUNNING,
    }
    return checkpoints_pb2.FlushRequest(
        fence=dispatch.fence, intent_id=dispatch.intent_id, **{**said, **changes}
    )


def new_intent(**changes: Any) -> intents_pb2.NewIntent:
    """An intent for a review, keyed by itself."""
    said = {"queue": "reviews", "action": "container-dispatch", "payload": b"{}"}
    return intents_pb2.NewIntent(**{**said, **changes})


def enqueue(*intents: intents_pb2.NewIntent, **changes: Any) -> intents_pb2.EnqueueIntentsRequest:
    """One request with a new id."""
    said = {"request_id": str(uuid.uuid4())}
    return intents_pb2.EnqueueIntentsRequest(
        intents=intents or [new_intent()], **{**said, **changes}
    )


class Stream:
    """One stream of a session."""

    def __init__(self, call: "aio.StreamStreamCall[work_pb2.WorkRequest, work_pb2.WorkResponse]"):
        self._call = call
        self._seen: list[work_pb2.WorkResponse] = []

    async def send(self, **parts: Any) -> None:
        """One frame."""
        await self._call.write(work_pb2.WorkRequest(**parts))

    async def frame(self) -> work_pb2.WorkResponse | None:
        """The next frame; None at the end. Raises what the server ended the stream with."""
        async with asyncio.timeout(FRAME_WITHIN_S):
            frame = await self._call.read()
        return None if frame is aio.EOF else cast(work_pb2.WorkResponse, frame)

    async def first(self, wanted: Callable[[work_pb2.WorkResponse], T]) -> T:
        """The first truthy answer about a frame not yet asked for; others are kept."""
        for frame in self._seen:
            if answer := wanted(frame):
                self._seen.remove(frame)
                return answer
        while frame_or_end := await self.frame():
            if answer := wanted(frame_or_end):
                return answer
            self._seen.append(frame_or_end)
        raise EOFError

    async def open(self, said: work_pb2.Hello | None = None) -> work_pb2.Welcome:
        """Says Hello and hears Welcome."""
        await self.send(hello=said or hello())
        frame = await self.frame()
        assert frame is not None
        assert frame.HasField("welcome")
        return frame.welcome

    async def credit(self, dispatches: int) -> None:
        """Room for so many more dispatches."""
        await self.send(credit=work_pb2.Credit(dispatches=dispatches))

    async def dispatches(self, count: int) -> list[work_pb2.Dispatch]:
        """So many dispatches, in their order."""
        found: list[work_pb2.Dispatch] = []
        while len(found) < count:
            found += await self.first(lambda frame: list(frame.dispatches))
        return found

    async def dispatch(self) -> work_pb2.Dispatch:
        """The one dispatch that comes."""
        [dispatch] = await self.dispatches(1)
        return dispatch

    async def beat(self) -> None:
        """A heartbeat and its answer."""
        await self.send(heartbeat=work_pb2.Heartbeat())
        await self.first(lambda frame: frame.HasField("heartbeat_ack"))

    async def settle(self, *settles: work_pb2.Settle) -> list[work_pb2.SettleResult]:
        """Outcomes in one frame; their answers in the same order."""
        await self.send(settles=settles)
        results: dict[int, work_pb2.SettleResult] = {}
        while len(results) < len(settles):
            found = await self.first(lambda frame: list(frame.settle_results))
            results.update({result.item_id: result for result in found})
        return [results[each.item_id] for each in settles]

    async def renew(self, *renewals: work_pb2.Renew) -> list[work_pb2.RenewResult]:
        """Renewals in one frame; their answers in the same order."""
        await self.send(renewals=renewals)
        found = await self.first(lambda frame: list(frame.renew_results))
        results = {result.item_id: result for result in found}
        return [results[each.item_id] for each in renewals]

    async def close(self) -> None:
        """Ends the session in good order, and sees the server end the stream."""
        await self.send(end_drain=work_pb2.EndDrain())
        await self.stop_writing()

    async def stop_writing(self) -> None:
        """Says no more, and sees the server end the stream."""
        await self._call.done_writing()
        while await self.frame():
            pass

    def lose(self) -> None:
        """The stream breaks."""
        self._call.cancel()


class Line:
    """A worker's connection with one key."""

    def __init__(self, channel: Channel) -> None:
        self._work = work_pb2_grpc.DispatchServiceStub(channel)
        self._checkpoints = checkpoints_pb2_grpc.CheckpointServiceStub(channel)
        self._intents = intents_pb2_grpc.IntentServiceStub(channel)

    def stream(self) -> Stream:
        """A new stream; nothing was said on it."""
        return Stream(self._work.Work())

    async def opened(self, **said: Any) -> tuple[Stream, str]:
        """A stream with a session, and the session's id."""
        stream = self.stream()
        return stream, (await stream.open(hello(**said))).session_id

    async def call(self, rpc: str, request: Any) -> Any:
        """One unary call; raises the error class that the server raised."""
        stubs: Mapping[str, Any] = {
            "FetchPayload": self._work,
            "Wake": self._work,
            "Flush": self._checkpoints,
            "GetRun": self._checkpoints,
        }
        return await getattr(stubs.get(rpc, self._intents), rpc)(request)


@asynccontextmanager
async def line(address: str, api_key: str, *, tenant: str | None = None) -> AsyncIterator[Line]:
    """A connection to the dispatcher at host:port."""
    async with connect(ChannelSettings(target=address, api_key=api_key, tenant=tenant)) as channel:
        yield Line(channel)

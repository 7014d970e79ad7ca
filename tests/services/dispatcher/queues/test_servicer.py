"""QueueService of a real process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fencepost.channel import ChannelSettings, connect
from fencepost.dispatcher.v1 import queues_pb2 as pb
from fencepost.dispatcher.v1 import queues_pb2_grpc
from fencepost.errors import FieldInvalid, ScopeMissing
from google.protobuf.duration_pb2 import Duration

from tests.services.dispatcher.floor import Floor


@asynccontextmanager
async def stub(floor: Floor, scope: str = "operate") -> AsyncIterator[Any]:
    key = await floor.rows.api_key(scope, tenant=floor.rows.tenant)
    async with connect(ChannelSettings(target=floor.address, api_key=key)) as channel:
        yield queues_pb2_grpc.QueueServiceStub(channel)


def queue(**changes: Any) -> pb.Queue:
    delays = pb.RetryDelays(
        delays=[Duration(seconds=2), Duration(seconds=5, nanos=1_000_000)],
        cap=Duration(seconds=60),
        jitter_percent=20,
    )
    said = {
        "name": "slow",
        "max_retries": 3,
        "retry_delays": delays,
        "lease_time": Duration(seconds=90),
    }
    return pb.Queue(**{**said, **changes})


async def test_what_was_declared_is_read_and_listed(floor: Floor) -> None:
    async with stub(floor) as service:
        made = await service.PutQueue(pb.PutQueueRequest(queue=queue()))
        read = await service.GetQueue(pb.GetQueueRequest(name="slow"))
        listed = await service.ListQueues(pb.ListQueuesRequest())
        again = await service.PutQueue(pb.PutQueueRequest(queue=read.queue))
    assert (made.created, len(made.changes), len(again.changes)) == (True, 5, 0)
    assert (read.queue, list(listed.queues)) == (made.queue, [made.queue])
    assert (read.queue.tenant, read.queue.created_at.seconds > 0) == (floor.rows.tenant, True)
    bare = pb.Queue()
    bare.CopyFrom(read.queue)
    for name in ("tenant", "created_at", "changed_at"):
        bare.ClearField(name)
    assert bare == queue()


async def test_a_paused_queue_says_since_when(floor: Floor) -> None:
    async with stub(floor) as service:
        made = await service.PutQueue(pb.PutQueueRequest(queue=queue()))
        paused = await service.PauseQueue(pb.PauseQueueRequest(name="slow", reason="a deploy"))
        resumed = await service.ResumeQueue(pb.ResumeQueueRequest(name="slow"))
    shown = [each.queue.HasField("paused_at") for each in (made, paused, resumed)]
    assert shown == [False, True, False]


async def test_a_preview_shows_no_queue(floor: Floor) -> None:
    async with stub(floor) as service:
        request = pb.PutQueueRequest(queue=queue(), validate_only=True)
        preview = await service.PutQueue(request)
    assert (preview.created, preview.HasField("queue")) == (True, False)


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "Slow"}, "queue.name"),
        ({"max_retries": -1}, "queue.max_retries"),
        ({"retry_delays": pb.RetryDelays()}, "queue.retry_delays.delays"),
        ({"lease_time": Duration(nanos=1)}, "queue.lease_time"),
    ],
)
async def test_bad_rules_are_told_by_their_field(
    floor: Floor, changes: dict[str, Any], field: str
) -> None:
    async with stub(floor) as service:
        with pytest.raises(FieldInvalid) as refused:
            await service.PutQueue(pb.PutQueueRequest(queue=queue(**changes)))
    assert field in dict(refused.value.violations)


@pytest.mark.guarantee("X2")
async def test_a_worker_may_not_declare_queues(floor: Floor) -> None:
    async with stub(floor, "work") as service:
        with pytest.raises(ScopeMissing):
            await service.PutQueue(pb.PutQueueRequest(queue=queue()))

"""What the dispatcher is asked for of another tenant's."""

from collections.abc import Callable, Sequence
from typing import Any

from fencepost.calls import OPEN_AGAIN
from fencepost.dispatcher.v1 import (
    checkpoints_pb2,
    intents_pb2,
    queues_pb2,
    work_pb2,
    work_pb2_grpc,
)
from fencepost.errors import FencepostError, LeaseLost, RequestIdReused, ResourceNotFound
from fencepost.status import from_status
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from tests.services.dispatcher.wire import Stream, fence, hello, renewal, settle
from tests.system.probes.asking import Ask, Ours, Probe, presenting
from tests.system.tenants import Theirs, calling, enqueue

OPENINGS_MAX = 10
FLUSH_ID = "6f1c5a52-0f0e-4ac5-9a55-54a4a1e9a002"


def opening(said: Callable[[Theirs], work_pb2.Hello]) -> Ask:
    """Opens a session, anew while the stream ends before its refusal could be read."""

    async def ask(
        ours: Ours, theirs: Theirs, _method: MethodDescriptor, address: str
    ) -> Sequence[Message]:
        async with calling(address, ours.key, tenant=ours.named) as channel:
            for _ in range(OPENINGS_MAX):
                stream = Stream(work_pb2_grpc.DispatchServiceStub(channel).Work())
                try:
                    return [await stream.open(said(theirs))]
                except FencepostError as error:
                    if str(error) != OPEN_AGAIN:
                        raise
        raise AssertionError("no opening was answered")

    return ask


async def work_beside(
    ours: Ours, theirs: Theirs, _method: MethodDescriptor, address: str
) -> Sequence[Message]:
    """Settles and renews what they hold, and takes work off the queue on which theirs is first."""
    held = work_pb2.Dispatch(fence=fence(theirs.work), intent_id=theirs.work.intent_id)
    work = await ours.rows.bare_intent()
    await ours.rows.ready(work, priority=-9)
    async with calling(address, ours.key, tenant=ours.named) as channel:
        stream = Stream(work_pb2_grpc.DispatchServiceStub(channel).Work())
        await stream.open()
        settled = await stream.settle(settle(held))
        renewed = await stream.renew(renewal(held))
        await stream.credit(1)
        return [settled[0].refusal, renewed[0].refusal, await stream.dispatch()]


def granted_ours_alone(answers: Sequence[Any], theirs: Theirs) -> bool:
    """Both refused as lost, and the dispatch is none of theirs."""
    *refusals, dispatch = answers
    lost = [from_status(each) for each in refusals]
    return (
        all(isinstance(each, LeaseLost) for each in lost)
        and dispatch.intent_id not in theirs.intent_ids
    )


def flush_request(theirs: Theirs) -> checkpoints_pb2.FlushRequest:
    """The next flush of their run."""
    return checkpoints_pb2.FlushRequest(
        fence=fence(theirs.work),
        intent_id=theirs.work.intent_id,
        flush_id=FLUSH_ID,
        based_on_version=theirs.work.version,
        state=checkpoints_pb2.RunState(data=b"{}"),
        analysis_status=checkpoints_pb2.ANALYSIS_STATUS_RUNNING,
    )


def put_queue() -> queues_pb2.PutQueueRequest:
    """A queue of ours, named like theirs."""
    queue = queues_pb2.Queue(name="reviews", max_retries=1)
    queue.retry_delays.delays.add(seconds=5)
    queue.lease_time.seconds = 60
    return queues_pb2.PutQueueRequest(queue=queue)


PROBES: dict[str, tuple[Probe, ...]] = {
    "fencepost.dispatcher.v1.DispatchService.Work": (
        Probe(
            "their session, to take it up",
            opening(lambda theirs: hello(session_id=theirs.session_id, resume_session=True)),
            ResourceNotFound,
            "session",
        ),
        Probe(
            "their session's id, for a new one",
            opening(lambda theirs: hello(session_id=theirs.session_id)),
            RequestIdReused,
        ),
        Probe("their fence, and their queue", work_beside, shows_nothing=granted_ours_alone),
    ),
    "fencepost.dispatcher.v1.DispatchService.FetchPayload": (
        Probe(
            "their fence and intent",
            presenting(
                lambda theirs: work_pb2.FetchPayloadRequest(
                    fence=fence(theirs.work), intent_id=theirs.work.intent_id
                )
            ),
            LeaseLost,
        ),
    ),
    "fencepost.dispatcher.v1.DispatchService.Wake": (
        Probe(
            "carries no id: a queue's name is every tenant's, and the answer is empty",
            presenting(lambda _: work_pb2.WakeRequest(queues=["reviews"])),
        ),
    ),
    "fencepost.dispatcher.v1.CheckpointService.Flush": (
        Probe("their fence and intent", presenting(flush_request), LeaseLost),
    ),
    "fencepost.dispatcher.v1.CheckpointService.GetRun": (
        Probe(
            "their fence and intent",
            presenting(
                lambda theirs: checkpoints_pb2.GetRunRequest(
                    fence=fence(theirs.work), intent_id=theirs.work.intent_id
                )
            ),
            LeaseLost,
        ),
    ),
    "fencepost.dispatcher.v1.IntentService.EnqueueIntents": (
        Probe(
            "their request id",
            presenting(lambda _: enqueue()),
            shows_nothing=lambda answers, theirs: theirs.intent_ids.isdisjoint(
                answers[0].intent_ids
            ),
        ),
    ),
    "fencepost.dispatcher.v1.IntentService.GetIntent": (
        Probe(
            "their intent",
            presenting(
                lambda theirs: intents_pb2.GetIntentRequest(intent_id=theirs.work.intent_id)
            ),
            ResourceNotFound,
            "intent",
        ),
    ),
    "fencepost.dispatcher.v1.QueueService.GetQueue": (
        Probe(
            "their queue's name, which is not declared for ours",
            presenting(lambda _: queues_pb2.GetQueueRequest(name="reviews")),
            ResourceNotFound,
            "queue",
        ),
    ),
    "fencepost.dispatcher.v1.QueueService.PauseQueue": (
        Probe(
            "their queue's name, which is not declared for ours",
            presenting(lambda _: queues_pb2.PauseQueueRequest(name="reviews")),
            ResourceNotFound,
            "queue",
        ),
    ),
    "fencepost.dispatcher.v1.QueueService.ResumeQueue": (
        Probe(
            "their queue's name, which is not declared for ours",
            presenting(lambda _: queues_pb2.ResumeQueueRequest(name="reviews")),
            ResourceNotFound,
            "queue",
        ),
    ),
    "fencepost.dispatcher.v1.QueueService.ListQueues": (
        Probe(
            "carries no id: lists the queues of the caller's tenant",
            presenting(lambda _: queues_pb2.ListQueuesRequest()),
            shows_nothing=lambda answers, _: not answers[0].queues,
        ),
    ),
    "fencepost.dispatcher.v1.QueueService.PutQueue": (
        Probe(
            "their queue's name, for one of ours",
            presenting(lambda _: put_queue()),
            shows_nothing=lambda answers, _: answers[0].created,
        ),
    ),
}

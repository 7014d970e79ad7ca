"""How another tenant's id is presented to every RPC, and what must come back (X8)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.common.v1 import server_info_pb2
from fencepost.dispatcher.v1 import checkpoints_pb2, intents_pb2, work_pb2, work_pb2_grpc
from fencepost.errors import FencepostError, LeaseLost, RequestIdReused, ResourceNotFound
from fencepost.ingress.v1 import ingress_pb2
from fencepost.publisher.v1 import ledger_pb2
from fencepost.status import from_status
from fencepost.watchdog.v1 import access_pb2, watchdog_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from tests.rows import Rows
from tests.services.dispatcher.wire import Stream, fence, hello, renewal, settle
from tests.services.publisher.wire import review_request
from tests.system.tenants import (
    ENDPOINT,
    Theirs,
    answer,
    calling,
    create_key,
    enqueue,
    hold,
)

FLUSH_ID = "6f1c5a52-0f0e-4ac5-9a55-54a4a1e9a002"


@dataclass(frozen=True)
class Ours:
    """Our tenant, with a key that may do everything; `named` is the tenant that our calls name."""

    rows: Rows
    key: str
    named: str | None = None


Ask = Callable[[Ours, Theirs, MethodDescriptor, str], Awaitable[Sequence[Message]]]
"""Presents what is theirs to the method at an address; the answers."""


@dataclass(frozen=True)
class Probe:
    """One way to ask, in words; what is refused, or that an answer shows nothing of theirs."""

    what: str
    ask: Ask
    refused: type[FencepostError] | None = None
    kind: str = ""
    shows_nothing: Callable[[Sequence[Any], Theirs], bool] = lambda _answer, _theirs: True


def presenting(request: Callable[[Theirs], Message]) -> Ask:
    """Sends one request."""

    async def ask(
        ours: Ours, theirs: Theirs, method: MethodDescriptor, address: str
    ) -> Sequence[Message]:
        async with calling(address, ours.key, tenant=ours.named) as channel:
            return [await answer(channel, method, request(theirs))]

    return ask


def opening(said: Callable[[Theirs], work_pb2.Hello]) -> Ask:
    """Opens a session."""

    async def ask(
        ours: Ours, theirs: Theirs, _method: MethodDescriptor, address: str
    ) -> Sequence[Message]:
        async with calling(address, ours.key, tenant=ours.named) as channel:
            return [
                await Stream(work_pb2_grpc.DispatchServiceStub(channel).Work()).open(said(theirs))
            ]

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


def all_zero(answers: Sequence[Any], _theirs: Theirs) -> bool:
    """Nothing is counted that we have not got; what cannot be observed has no value."""
    return not any(figure.value for figure in answers[0].figures)


def nothing_received(answers: Sequence[Any], _theirs: Theirs) -> bool:
    """The story of what was never received."""
    return not answers[0].events and answers[0].standing.startswith("Nothing was received")


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


def submission(theirs: Theirs) -> ingress_pb2.SubmitDeliveryRequest:
    """A delivery for their endpoint, under the id of one that they have."""
    return ingress_pb2.SubmitDeliveryRequest(
        endpoint=ENDPOINT, delivery_id=theirs.delivery_id, event="pull_request", body=b"{}"
    )


PROBES: dict[str, tuple[Probe, ...]] = {
    "fencepost.common.v1.ServerInfoService.GetServerInfo": (
        Probe(
            "carries no id: it tells of the process and the schema alone",
            presenting(lambda _: server_info_pb2.GetServerInfoRequest()),
        ),
    ),
    "fencepost.ingress.v1.IngressService.SubmitDelivery": (
        Probe("their endpoint", presenting(submission), ResourceNotFound, "endpoint"),
    ),
    "fencepost.ingress.v1.IngressService.GetDelivery": (
        Probe(
            "their delivery",
            presenting(
                lambda theirs: ingress_pb2.GetDeliveryRequest(
                    endpoint=ENDPOINT, delivery_id=theirs.delivery_id
                )
            ),
            ResourceNotFound,
            "delivery",
        ),
    ),
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
    "fencepost.publisher.v1.PublishService.PublishReview": (
        Probe(
            "their fence and intent",
            presenting(lambda theirs: review_request(theirs.work)),
            ResourceNotFound,
            "intent",
        ),
    ),
    "fencepost.publisher.v1.LedgerService.GetPublication": (
        Probe(
            "their publication",
            presenting(
                lambda theirs: ledger_pb2.GetPublicationRequest(
                    publication_id=theirs.publication_id
                )
            ),
            ResourceNotFound,
            "publication",
        ),
    ),
    "fencepost.publisher.v1.LedgerService.HoldPublications": (
        Probe(
            "their request id",
            presenting(lambda _: hold()),
            shows_nothing=lambda answers, theirs: answers[0].hold_id not in theirs.hold_ids,
        ),
    ),
    "fencepost.publisher.v1.LedgerService.ReleaseHold": (
        Probe(
            "their hold",
            presenting(lambda theirs: ledger_pb2.ReleaseHoldRequest(hold_id=min(theirs.hold_ids))),
            ResourceNotFound,
            "hold",
        ),
    ),
    "fencepost.watchdog.v1.AccessService.CreateKey": (
        Probe(
            "their request id",
            presenting(lambda _: create_key()),
            shows_nothing=lambda answers, theirs: answers[0].key.key_id not in theirs.key_ids,
        ),
    ),
    "fencepost.watchdog.v1.AccessService.RotateKey": (
        Probe(
            "their key",
            presenting(
                lambda theirs: access_pb2.RotateKeyRequest(
                    request_id="r", key_id=min(theirs.key_ids)
                )
            ),
            ResourceNotFound,
            "key",
        ),
    ),
    "fencepost.watchdog.v1.AccessService.RevokeKey": (
        Probe(
            "their key",
            presenting(lambda theirs: access_pb2.RevokeKeyRequest(key_id=min(theirs.key_ids))),
            ResourceNotFound,
            "key",
        ),
    ),
    "fencepost.watchdog.v1.AccessService.ListKeys": (
        Probe(
            "carries no id: lists the keys of the caller's tenant",
            presenting(lambda _: access_pb2.ListKeysRequest()),
            shows_nothing=lambda answers, theirs: theirs.key_ids.isdisjoint(
                key.key_id for key in answers[0].keys
            ),
        ),
    ),
    "fencepost.watchdog.v1.WatchdogService.GetStatus": (
        Probe(
            "carries no id: counts what the caller's tenant has",
            presenting(lambda _: watchdog_pb2.GetStatusRequest()),
            shows_nothing=all_zero,
        ),
    ),
    "fencepost.watchdog.v1.WatchdogService.GetTimeline": (
        Probe(
            "their delivery",
            presenting(
                lambda theirs: watchdog_pb2.GetTimelineRequest(delivery_id=theirs.delivery_id)
            ),
            shows_nothing=nothing_received,
        ),
        Probe(
            "their change request",
            presenting(
                lambda theirs: watchdog_pb2.GetTimelineRequest(change_request_url=theirs.pull.url)
            ),
            shows_nothing=nothing_received,
        ),
    ),
}
"""By RPC: every way in which another tenant's id can be presented to it."""

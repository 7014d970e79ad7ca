"""Protobuf in, protobuf out, for status and timelines."""

from datetime import datetime

from fencepost.watchdog.v1 import watchdog_pb2 as pb
from fencepost.watchdog.v1.watchdog_pb2_grpc import WatchdogServiceServicer
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from services.watchdog.status.operations import Observation, Observed, StatusOperations
from services.watchdog.timeline.events_rules import Event
from services.watchdog.timeline.operations import ByDelivery, ByUrl, Subject, TimelineOperations
from shared.rpc.caller import current_caller

Context = aio.ServicerContext[object, object]


class WatchdogServicer(WatchdogServiceServicer):
    """WatchdogService."""

    def __init__(self, status: StatusOperations, timelines: TimelineOperations) -> None:
        self._status = status
        self._timelines = timelines

    async def GetStatus(  # noqa: N802  (the contract's name)
        self, _request: pb.GetStatusRequest, _context: Context
    ) -> pb.GetStatusResponse:
        """Every figure of the caller's tenant, or of all."""
        observations = await self._status.status(current_caller().tenant_or_all())
        return pb.GetStatusResponse(figures=[_figure(each) for each in observations])

    async def GetTimeline(  # noqa: N802  (the contract's name)
        self, request: pb.GetTimelineRequest, _context: Context
    ) -> pb.GetTimelineResponse:
        """The story of a delivery or of a change request."""
        tenant = current_caller().tenant_or_all()
        timeline = await self._timelines.timeline(tenant, _subject(request))
        return pb.GetTimelineResponse(
            title=timeline.title,
            events=[_event(event) for event in timeline.events],
            standing=timeline.standing,
            next_commands=timeline.next_commands,
            truncated=timeline.truncated,
        )


def _subject(request: pb.GetTimelineRequest) -> Subject:
    if request.WhichOneof("subject") == "delivery_id":
        return ByDelivery(request.delivery_id)
    return ByUrl(request.change_request_url)


def _figure(observation: Observation) -> pb.Figure:
    figure = observation.figure
    if isinstance(observation, Observed):
        return pb.Figure(
            name=figure.name,
            description=figure.description,
            value=observation.value,
            at=_timestamp(observation.at),
            labels=observation.labels,
        )
    return pb.Figure(
        name=figure.name,
        description=figure.description,
        unobservable_reason=observation.reason,
        at=None if observation.since is None else _timestamp(observation.since),
        labels=observation.labels,
    )


def _event(event: Event) -> pb.TimelineEvent:
    return pb.TimelineEvent(
        at=_timestamp(event.at),
        service=event.service,
        kind=event.kind,
        text=event.text,
        ids=event.ids,
        trace_id=event.trace_id,
    )


def _timestamp(moment: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp

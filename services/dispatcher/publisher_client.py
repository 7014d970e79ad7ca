"""Asks the publisher, which holds the way into each forge, for the heads of change requests."""

from datetime import UTC

from fencepost.channel import Channel, connect
from fencepost.publisher.v1 import connections_pb2, heads_pb2, publish_pb2_grpc

from services.dispatcher.housekeeping.resolve_operations import ForgeHead, Question
from services.dispatcher.settings import DispatcherSettings
from shared.rpc.client import channel_settings
from shared.schema.states import ChangeRequestState

PUBLISHER = "publisher"
FORGE_KIND = "FORGE_KIND_"
STATES = {
    heads_pb2.CHANGE_REQUEST_STATE_OPEN: ChangeRequestState.OPEN,
    heads_pb2.CHANGE_REQUEST_STATE_CLOSED: ChangeRequestState.CLOSED,
}


class PublisherClient:
    """One channel to the publisher, made when it is first needed."""

    def __init__(self, settings: DispatcherSettings) -> None:
        self._reach = channel_settings(
            settings, PUBLISHER, deadline_ms=settings.publisher_timeout_ms
        )
        self._channel: Channel | None = None

    async def resolve_head(self, question: Question) -> ForgeHead:
        """What the forge has now; raises the FencepostError that the publisher answers."""
        if self._channel is None:
            self._channel = connect(self._reach)
        stub = publish_pb2_grpc.PublishServiceStub(self._channel)
        request = heads_pb2.ResolveHeadRequest(**vars(question))
        return _head(await stub.ResolveHead(request))

    async def close(self) -> None:
        """Ends the channel."""
        if self._channel is not None:
            await self._channel.close()


def _head(answer: heads_pb2.ResolveHeadResponse) -> ForgeHead:
    kind = connections_pb2.ForgeKind.Name(answer.forge)
    updated_at = answer.updated_at.ToDatetime(UTC) if answer.HasField("updated_at") else None
    return ForgeHead(
        forge=kind.removeprefix(FORGE_KIND).lower(),
        repo_name=answer.repo_name,
        head_sha=answer.head_sha,
        state=STATES[answer.state],
        base_ref=answer.base_ref,
        updated_at=updated_at,
        url=answer.url,
    )

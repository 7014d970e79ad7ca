"""Submits deliveries to ingress; those that are submitted at the same time share a call."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from fencepost.batching import Batcher, BatchLimits
from fencepost.calls import trace_context
from fencepost.channel import Channel
from fencepost.errors import FencepostError
from fencepost.ingress.v1 import ingress_pb2 as pb
from fencepost.ingress.v1.ingress_pb2_grpc import IngressServiceStub
from fencepost.metadata import TRACEPARENT
from fencepost.status import from_status
from fencepost.validation import check

LIMITS: Final = BatchLimits()


class Submitter:
    """Ingress for callers who submit one delivery at a time, many of them at once.

    A caller who is alone is not held up. Use one for each channel, as a context manager: at its
    end everyone who was let in is answered.
    """

    def __init__(self, channel: Channel, *, limits: BatchLimits = LIMITS) -> None:
        self._stub: Any = IngressServiceStub(channel)
        self._batcher = Batcher(
            self._submit_all, size_bytes=lambda delivery: len(delivery.body), limits=limits
        )

    async def submit(self, delivery: pb.SubmitDeliveryRequest) -> pb.SubmitDeliveryResponse:
        """What became of it, with the trace of the caller's span.

        Raises FieldInvalid before anything is sent, Draining once closed, and what the server
        says of this delivery as its own class. One that is cancelled may be taken in all the
        same: the same delivery id again tells (X6).
        """
        check(delivery)
        outcome = await self._batcher.submit(_traced(delivery))
        if isinstance(outcome, FencepostError):
            raise outcome
        return outcome

    async def close(self) -> None:
        """Lets nobody in any more; returns when everyone is answered."""
        await self._batcher.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _submit_all(
        self, deliveries: Sequence[pb.SubmitDeliveryRequest]
    ) -> list[pb.SubmitDeliveryResponse | FencepostError]:
        request = pb.SubmitDeliveriesRequest(deliveries=deliveries)
        response = await self._stub.SubmitDeliveries(request)
        return [_outcome(result) for result in response.results]


def _outcome(result: pb.SubmitDeliveryResult) -> pb.SubmitDeliveryResponse | FencepostError:
    return from_status(result.refusal) if result.HasField("refusal") else result.taken


def _traced(delivery: pb.SubmitDeliveryRequest) -> pb.SubmitDeliveryRequest:
    parent = dict(trace_context()).get(TRACEPARENT)
    if delivery.traceparent or not isinstance(parent, str):
        return delivery
    traced = pb.SubmitDeliveryRequest(traceparent=parent)
    traced.MergeFrom(delivery)
    return traced

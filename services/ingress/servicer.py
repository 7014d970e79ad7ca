"""IngressService: protobuf in, protobuf out, for the caller's tenant."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from fencepost.common.v1 import key_pb2
from fencepost.errors import FieldInvalid, Refusal, ResourceNotFound
from fencepost.ingress.v1 import ingress_pb2, ingress_pb2_grpc
from fencepost.status import to_status
from fencepost.validation import violations
from google.protobuf.timestamp_pb2 import Timestamp
from grpc.aio import ServicerContext

from services.ingress.batched import BatchedIntake
from services.ingress.body_rules import JSON
from services.ingress.deliveries_store import DeliveryRow
from services.ingress.endpoints import Endpoint
from services.ingress.endpoints.snapshot import Endpoints
from services.ingress.list_store import DeliveryFilter
from services.ingress.operations import Intake
from services.ingress.submissions import Match, Submission, SubmissionOutcome, Taken
from shared.rpc.caller import current_caller
from shared.rpc.moments import moment
from shared.schema.states import DeliveryOutcome
from shared.telemetry import current_traceparent

_OUTCOMES = {
    DeliveryOutcome.ACCEPTED: ingress_pb2.DELIVERY_OUTCOME_ACCEPTED,
    DeliveryOutcome.DUPLICATE: ingress_pb2.DELIVERY_OUTCOME_DUPLICATE,
    DeliveryOutcome.IGNORED: ingress_pb2.DELIVERY_OUTCOME_IGNORED,
    DeliveryOutcome.REFUSED: ingress_pb2.DELIVERY_OUTCOME_REFUSED,
}
_OUTCOMES_BY_NUMBER = {number: outcome.value for outcome, number in _OUTCOMES.items()}
_MATCHES = {
    Match.NONE: ingress_pb2.DUPLICATE_MATCH_UNSPECIFIED,
    Match.DELIVERY_ID: ingress_pb2.DUPLICATE_MATCH_DELIVERY_ID,
    Match.BODY: ingress_pb2.DUPLICATE_MATCH_BODY,
    Match.KEY: ingress_pb2.DUPLICATE_MATCH_KEY,
}

PAGE_SIZE = 100

Found = dict[str, Endpoint | Refusal]
"""The endpoints that a list names, each looked for once."""


class IngressServicer(ingress_pb2_grpc.IngressServiceServicer):
    """Translates between the wire and the operations."""

    def __init__(self, intake: Intake, batched: BatchedIntake, endpoints: Endpoints) -> None:
        self._intake = intake
        self._batched = batched
        self._endpoints = endpoints

    async def SubmitDelivery(  # noqa: N802 - named by the contract
        self,
        request: ingress_pb2.SubmitDeliveryRequest,
        context: ServicerContext[  # noqa: ARG002
            ingress_pb2.SubmitDeliveryRequest, ingress_pb2.SubmitDeliveryResponse
        ],
    ) -> ingress_pb2.SubmitDeliveryResponse:
        """Takes one delivery in."""
        outcome = await self._batched.submit(await self._submission(request))
        if isinstance(outcome, Refusal):
            raise outcome
        return _response(outcome)

    async def SubmitDeliveries(  # noqa: N802 - named by the contract
        self,
        request: ingress_pb2.SubmitDeliveriesRequest,
        context: ServicerContext[  # noqa: ARG002
            ingress_pb2.SubmitDeliveriesRequest, ingress_pb2.SubmitDeliveriesResponse
        ],
    ) -> ingress_pb2.SubmitDeliveriesResponse:
        """Takes a list in; each that is refused is answered by itself."""
        read = await self._submissions(request.deliveries)
        valid = [each for each in read if isinstance(each, Submission)]
        taken = iter(await self._intake.submit(valid) if valid else [])
        outcomes = [next(taken) if isinstance(each, Submission) else each for each in read]
        return ingress_pb2.SubmitDeliveriesResponse(results=[_result(each) for each in outcomes])

    async def GetDelivery(  # noqa: N802 - named by the contract
        self,
        request: ingress_pb2.GetDeliveryRequest,
        context: ServicerContext[  # noqa: ARG002
            ingress_pb2.GetDeliveryRequest, ingress_pb2.GetDeliveryResponse
        ],
    ) -> ingress_pb2.GetDeliveryResponse:
        """Reads one delivery."""
        found = await self._intake.find_delivery(
            tenant=current_caller().require_tenant(),
            endpoint=request.endpoint,
            delivery_id=request.delivery_id,
        )
        return ingress_pb2.GetDeliveryResponse(delivery=_delivery(found))

    async def ListDeliveries(  # noqa: N802 - named by the contract
        self,
        request: ingress_pb2.ListDeliveriesRequest,
        context: ServicerContext[  # noqa: ARG002
            ingress_pb2.ListDeliveriesRequest, ingress_pb2.ListDeliveriesResponse
        ],
    ) -> ingress_pb2.ListDeliveriesResponse:
        """Lists deliveries, newest first."""
        wanted = _filter(request, tenant=current_caller().require_tenant())
        size = request.page_size or PAGE_SIZE
        page = await self._intake.list_deliveries(wanted, size=size, token=request.page_token)
        return ingress_pb2.ListDeliveriesResponse(
            deliveries=[_delivery(row) for row in page.deliveries],
            next_page_token=page.next_page_token,
        )

    async def _submissions(
        self, requests: Iterable[ingress_pb2.SubmitDeliveryRequest]
    ) -> list[Submission | Refusal]:
        found: Found = {}
        traceparent = current_traceparent()
        return [await self._valid_submission(each, found, traceparent) for each in requests]

    async def _valid_submission(
        self, request: ingress_pb2.SubmitDeliveryRequest, found: Found, traceparent: str
    ) -> Submission | Refusal:
        """One of a list, or why it is not taken in whatever its neighbours are (X4)."""
        if broken := violations(request):
            return FieldInvalid(violations=broken)
        if (endpoint := found.get(request.endpoint)) is None:
            endpoint = found[request.endpoint] = await self._endpoint_or_refusal(request.endpoint)
        if isinstance(endpoint, Refusal):
            return endpoint
        return _submission(request, endpoint, traceparent)

    async def _submission(self, request: ingress_pb2.SubmitDeliveryRequest) -> Submission:
        endpoint = await self._endpoint(request.endpoint)
        return _submission(request, endpoint, current_traceparent())

    async def _endpoint(self, name: str) -> Endpoint:
        return await self._endpoints.of_tenant(current_caller().require_tenant(), name)

    async def _endpoint_or_refusal(self, name: str) -> Endpoint | Refusal:
        try:
            return await self._endpoint(name)
        except ResourceNotFound as unknown:
            return unknown


def _submission(
    request: ingress_pb2.SubmitDeliveryRequest, endpoint: Endpoint, traceparent: str
) -> Submission:
    return Submission(
        endpoint=endpoint,
        delivery_id=request.delivery_id,
        event=request.event,
        content_type=request.content_type or JSON,
        body=request.body,
        traceparent=request.traceparent or traceparent,
    )


def _result(outcome: SubmissionOutcome) -> ingress_pb2.SubmitDeliveryResult:
    if isinstance(outcome, Refusal):
        return ingress_pb2.SubmitDeliveryResult(refusal=to_status(outcome))
    return ingress_pb2.SubmitDeliveryResult(taken=_response(outcome))


def _filter(request: ingress_pb2.ListDeliveriesRequest, *, tenant: str) -> DeliveryFilter:
    of_pull, pull = request.HasField("change_request"), request.change_request
    return DeliveryFilter(
        tenant=tenant,
        endpoint=request.endpoint or None,
        outcome=_OUTCOMES_BY_NUMBER.get(request.outcome),
        event=request.event or None,
        received_from=_moment(request, "received_from"),
        received_before=_moment(request, "received_before"),
        forge_instance=pull.forge_instance if of_pull else None,
        repo_id=pull.repo_id if of_pull else None,
        number=pull.number if of_pull else None,
        key=request.key or None,
    )


def _moment(
    request: ingress_pb2.ListDeliveriesRequest, field: Literal["received_from", "received_before"]
) -> datetime | None:
    return moment(getattr(request, field), field) if request.HasField(field) else None


def _response(taken: Taken) -> ingress_pb2.SubmitDeliveryResponse:
    return ingress_pb2.SubmitDeliveryResponse(
        outcome=_OUTCOMES[taken.outcome],
        matched=_MATCHES[taken.matched],
        first_delivery_id=taken.first_delivery_id,
        intent_ids=taken.intent_ids,
        reason=taken.reason,
    )


def _delivery(row: DeliveryRow) -> ingress_pb2.Delivery:
    received_at = Timestamp()
    received_at.FromDatetime(row.received_at)
    return ingress_pb2.Delivery(
        endpoint=row.endpoint,
        delivery_id=row.delivery_id,
        event=row.event,
        event_action=row.event_action,
        received_at=received_at,
        outcome=_OUTCOMES[row.outcome],
        reason=row.reason,
        intent_ids=row.intent_ids,
        key=_key(row),
        body_bytes=row.body_bytes,
        body_sha256=row.body_sha256.hex(),
        traceparent=row.traceparent,
    )


def _key(row: DeliveryRow) -> key_pb2.Key | None:
    if row.head_sha is None or row.repo_id is None or row.number is None:
        return None
    return key_pb2.Key(
        forge_instance=row.forge_instance,
        repo_id=row.repo_id,
        number=row.number,
        head_sha=row.head_sha,
        suffix=row.suffix or "",
        label=row.key_label or "",
    )

"""Protobuf in, protobuf out, for publications, their ledger and heads."""

from collections.abc import Mapping
from datetime import datetime

from fencepost.common.v1 import access_pb2
from fencepost.errors import FieldInvalid, ScopeMissing
from fencepost.publisher.v1 import (
    connections_pb2,
    heads_pb2,
    ledger_pb2,
    ledger_pb2_grpc,
    publish_pb2,
    publish_pb2_grpc,
)
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from services.publisher.heads.operations import Resolved, ResolveHead, Resolving
from services.publisher.holds import operations as holds
from services.publisher.holds.operations import HoldScope, PlaceHold
from services.publisher.ledger import operations as ledger
from services.publisher.model import (
    Attempt,
    Fence,
    ForgeKind,
    LineComment,
    Publication,
    PublishReview,
    Review,
    Verdict,
)
from services.publisher.operations import Publishing
from shared.database import Database
from shared.rpc.caller import Caller, current_caller, scope_name
from shared.schema.states import AttemptStatus, ChangeRequestState

FORGES: Mapping[ForgeKind, connections_pb2.ForgeKind.ValueType] = {
    ForgeKind.FORGEJO: connections_pb2.FORGE_KIND_FORGEJO,
    ForgeKind.GITEA: connections_pb2.FORGE_KIND_GITEA,
    ForgeKind.GITHUB: connections_pb2.FORGE_KIND_GITHUB,
    ForgeKind.GITLAB: connections_pb2.FORGE_KIND_GITLAB,
}
STATES: Mapping[ChangeRequestState, heads_pb2.ChangeRequestState.ValueType] = {
    ChangeRequestState.OPEN: heads_pb2.CHANGE_REQUEST_STATE_OPEN,
    ChangeRequestState.CLOSED: heads_pb2.CHANGE_REQUEST_STATE_CLOSED,
}
VERDICTS: Mapping[int, Verdict] = {
    publish_pb2.REVIEW_VERDICT_COMMENT: Verdict.COMMENT,
    publish_pb2.REVIEW_VERDICT_APPROVE: Verdict.APPROVE,
    publish_pb2.REVIEW_VERDICT_REQUEST_CHANGES: Verdict.REQUEST_CHANGES,
}
STATUSES: Mapping[AttemptStatus, ledger_pb2.AttemptStatus.ValueType] = {
    AttemptStatus.RUNNING: ledger_pb2.ATTEMPT_STATUS_RUNNING,
    AttemptStatus.SUCCEEDED: ledger_pb2.ATTEMPT_STATUS_SUCCEEDED,
    AttemptStatus.UNCERTAIN: ledger_pb2.ATTEMPT_STATUS_UNCERTAIN,
    AttemptStatus.REFUSED: ledger_pb2.ATTEMPT_STATUS_REFUSED,
    AttemptStatus.ABSENT: ledger_pb2.ATTEMPT_STATUS_ABSENT,
}

OTHERS_HEAD = "The API key belongs to another tenant than the request names: leave the name out."
NOT_OF_ALL = "Only a key that belongs to no tenant, and names none, may hold everything."

Context = aio.ServicerContext[object, object]


class PublishServicer(publish_pb2_grpc.PublishServiceServicer):
    """PublishService."""

    def __init__(self, publishing: Publishing, resolving: Resolving) -> None:
        self._publishing = publishing
        self._resolving = resolving

    async def PublishReview(  # noqa: N802  (the contract's name)
        self, request: publish_pb2.PublishReviewRequest, _context: Context
    ) -> publish_pb2.PublishReviewResponse:
        """Posts one review under the caller's lease."""
        command = _publish_review(request, tenant=current_caller().require_tenant())
        published = await self._publishing.publish_review(command)
        return publish_pb2.PublishReviewResponse(
            publication=_publication(published.publication),
            duplicate=published.duplicate,
            digest_differs=published.digest_differs,
        )

    async def ResolveHead(  # noqa: N802  (the contract's name)
        self, request: heads_pb2.ResolveHeadRequest, _context: Context
    ) -> heads_pb2.ResolveHeadResponse:
        """The head of one change request, by the forge's word."""
        command = ResolveHead(
            tenant=_tenant_of(request, current_caller()),
            forge_instance=request.forge_instance,
            repo_id=request.repo_id,
            number=request.number,
        )
        return _resolved(await self._resolving.resolve(command))


class LedgerServicer(ledger_pb2_grpc.LedgerServiceServicer):
    """LedgerService."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def GetPublication(  # noqa: N802  (the contract's name)
        self, request: ledger_pb2.GetPublicationRequest, _context: Context
    ) -> ledger_pb2.GetPublicationResponse:
        """One publication of the caller's tenant."""
        tenant = current_caller().tenant_or_all()
        publication = await self._database.read(
            lambda tx: ledger.read(tx, tenant=tenant, publication_id=request.publication_id)
        )
        return ledger_pb2.GetPublicationResponse(publication=_publication(publication))

    async def HoldPublications(  # noqa: N802  (the contract's name)
        self, request: ledger_pb2.HoldPublicationsRequest, _context: Context
    ) -> ledger_pb2.HoldPublicationsResponse:
        """Places a hold."""
        command = _place_hold(request, current_caller())
        hold_id = await self._database.run(lambda tx: holds.place(tx, command))
        return ledger_pb2.HoldPublicationsResponse(hold_id=hold_id)

    async def ReleaseHold(  # noqa: N802  (the contract's name)
        self, request: ledger_pb2.ReleaseHoldRequest, _context: Context
    ) -> ledger_pb2.ReleaseHoldResponse:
        """Lifts a hold."""
        caller = current_caller()
        released_at = await self._database.run(
            lambda tx: holds.release(
                tx,
                tenant=caller.tenant_or_all(),
                hold_id=request.hold_id,
                key_id=caller.key_id,
            )
        )
        return ledger_pb2.ReleaseHoldResponse(released_at=_timestamp(released_at))


def _tenant_of(request: heads_pb2.ResolveHeadRequest, caller: Caller) -> str:
    """Whose connection is used: a key of no tenant says it in the request (X8)."""
    own = caller.tenant_or_all()
    if own is None and not request.tenant:
        raise FieldInvalid(violations=[("tenant", "must be set, since the key belongs to none")])
    if own is not None and request.tenant not in ("", own):
        raise ScopeMissing(scope=scope_name(access_pb2.SCOPE_OPERATE), message=OTHERS_HEAD)
    return own or request.tenant


def _resolved(resolved: Resolved) -> heads_pb2.ResolveHeadResponse:
    head = resolved.head
    return heads_pb2.ResolveHeadResponse(
        head_sha=head.head_sha,
        state=STATES[head.state],
        forge=FORGES[resolved.forge],
        repo_name=head.repo_name,
        base_ref=head.base_ref,
        draft=head.draft,
        updated_at=None if head.updated_at is None else _timestamp(head.updated_at),
        url=head.url,
    )


def _publish_review(request: publish_pb2.PublishReviewRequest, *, tenant: str) -> PublishReview:
    fence = request.fence
    return PublishReview(
        fence=Fence(
            tenant=tenant,
            key=fence.key,
            action=fence.action,
            epoch=fence.epoch,
            holder=fence.holder,
        ),
        intent_id=request.intent_id,
        checkpoint_version=request.checkpoint_version,
        name=request.name,
        ordinal=request.ordinal,
        review=Review(
            verdict=VERDICTS[request.verdict],
            body=request.body,
            comments=tuple(
                LineComment(path=comment.path, line=comment.line, body=comment.body)
                for comment in request.comments
            ),
        ),
    )


def _place_hold(request: ledger_pb2.HoldPublicationsRequest, caller: Caller) -> PlaceHold:
    return PlaceHold(
        request_id=request.request_id,
        scope=_hold_scope(request, caller),
        reason=request.reason,
        key_id=caller.key_id,
    )


def _hold_scope(request: ledger_pb2.HoldPublicationsRequest, caller: Caller) -> HoldScope:
    match request.WhichOneof("scope"):
        case "everything":
            if caller.tenant_or_all() is not None:
                raise ScopeMissing(scope=scope_name(access_pb2.SCOPE_OPERATE), message=NOT_OF_ALL)
            return HoldScope(tenant=None)
        case "whole_tenant":
            return HoldScope(tenant=caller.require_tenant())
        case "action":
            return HoldScope(tenant=caller.tenant_or_all(), action=request.action)
        case "change_request":
            held = request.change_request
            return HoldScope(
                tenant=caller.tenant_or_all(),
                forge_instance=held.forge_instance,
                repo_id=held.repo_id,
                number=held.number or None,
            )
        case _:
            raise FieldInvalid(violations=[("scope", "must be set")])


def _publication(publication: Publication) -> ledger_pb2.Publication:
    plain = {name: value for name, value in vars(publication).items() if name != "attempts"}
    return ledger_pb2.Publication(
        **plain, attempts=[_attempt(attempt) for attempt in publication.attempts]
    )


def _attempt(attempt: Attempt) -> ledger_pb2.Attempt:
    settled_at = attempt.settled_at
    return ledger_pb2.Attempt(
        attempt=attempt.attempt,
        status=STATUSES[attempt.status],
        epoch=attempt.epoch,
        claimed_at=_timestamp(attempt.claimed_at),
        settled_at=None if settled_at is None else _timestamp(settled_at),
        remote_id=attempt.remote_id,
        remote_url=attempt.remote_url,
        detail=attempt.detail,
        digest=attempt.digest.hex(),
    )


def _timestamp(moment: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp

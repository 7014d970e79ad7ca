"""EndpointService: protobuf in, protobuf out, for the caller's tenant."""

from datetime import datetime

from fencepost.ingress.v1 import endpoints_pb2 as pb
from fencepost.ingress.v1.endpoints_pb2_grpc import EndpointServiceServicer
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from services.ingress.endpoints.model import Declared, DraftPolicy, ForgeKind, Proof, Route
from services.ingress.endpoints.operations import (
    Admin,
    EndpointOperations,
    PutEndpoint,
    PutOutcome,
    RotateSecret,
    Stored,
    declared_of,
)
from services.ingress.endpoints.secrets_store import SecretRow
from services.ingress.endpoints.snapshot import Endpoints
from shared.rpc.caller import current_caller

PAGE_SIZE_DEFAULT = 100

FORGES = {
    pb.FORGE_KIND_FORGEJO: ForgeKind.FORGEJO,
    pb.FORGE_KIND_GITEA: ForgeKind.GITEA,
    pb.FORGE_KIND_GITHUB: ForgeKind.GITHUB,
    pb.FORGE_KIND_GITLAB: ForgeKind.GITLAB,
}
PROOFS = {pb.PROOF_SIGNATURE: Proof.SIGNATURE, pb.PROOF_TOKEN: Proof.TOKEN}
DRAFTS = {pb.DRAFT_POLICY_IGNORE: DraftPolicy.IGNORE, pb.DRAFT_POLICY_TAKE: DraftPolicy.TAKE}

_FORGES_SAID = {kind: said for said, kind in FORGES.items()}
_PROOFS_SAID = {proof: said for said, proof in PROOFS.items()}
_DRAFTS_SAID = {policy: said for said, policy in DRAFTS.items()}

Context = aio.ServicerContext[object, object]


class EndpointServicer(EndpointServiceServicer):
    """EndpointService; what it changes is served by this replica before it is answered."""

    def __init__(self, operations: EndpointOperations, endpoints: Endpoints) -> None:
        self._operations = operations
        self._endpoints = endpoints

    async def PutEndpoint(  # noqa: N802  (the contract's name)
        self, request: pb.PutEndpointRequest, _context: Context
    ) -> pb.PutEndpointResponse:
        """Makes or changes an endpoint."""
        command = PutEndpoint(
            admin=_admin(),
            declared=_declared(request.endpoint),
            secret=request.secret.encode() or None,
            enable=request.enable,
            validate_only=request.validate_only,
        )
        outcome = await self._operations.put(command)
        await self._endpoints.catch_up()
        return self._put(outcome)

    async def ListEndpoints(  # noqa: N802  (the contract's name)
        self, request: pb.ListEndpointsRequest, _context: Context
    ) -> pb.ListEndpointsResponse:
        """One page of endpoints."""
        page = await self._operations.page(
            current_caller().tenant_or_all(),
            size=request.page_size or PAGE_SIZE_DEFAULT,
            token=request.page_token,
        )
        return pb.ListEndpointsResponse(
            endpoints=[self._endpoint(stored) for stored in page.endpoints],
            next_page_token=page.next_page_token,
        )

    async def DisableEndpoint(  # noqa: N802  (the contract's name)
        self, request: pb.DisableEndpointRequest, _context: Context
    ) -> pb.DisableEndpointResponse:
        """Ends an endpoint's service."""
        stored = await self._operations.disable(_admin(), request.name, request.reason)
        await self._endpoints.catch_up()
        return pb.DisableEndpointResponse(endpoint=self._endpoint(stored))

    async def RotateEndpointSecret(  # noqa: N802  (the contract's name)
        self, request: pb.RotateEndpointSecretRequest, _context: Context
    ) -> pb.RotateEndpointSecretResponse:
        """Gives an endpoint its next secret."""
        command = RotateSecret(
            admin=_admin(),
            name=request.name,
            secret=request.secret.encode(),
            overlap_ms=request.overlap.ToMilliseconds(),
        )
        outcome = await self._operations.rotate(command)
        await self._endpoints.catch_up()
        endpoint = self._endpoint(outcome.stored)
        return pb.RotateEndpointSecretResponse(endpoint=endpoint, rotated=outcome.rotated)

    def _put(self, outcome: PutOutcome) -> pb.PutEndpointResponse:
        changes = (
            pb.FieldChange(field=change.field, before=change.before, after=change.after)
            for change in outcome.changes
        )
        return pb.PutEndpointResponse(
            endpoint=None if outcome.stored is None else self._endpoint(outcome.stored),
            created=outcome.created,
            changes=changes,
        )

    def _endpoint(self, stored: Stored) -> pb.Endpoint:
        row = stored.row
        path = self._endpoints.webhook_path(row.tenant, row.forge, row.name)
        return _endpoint_said(stored, path)


def _admin() -> Admin:
    caller = current_caller()
    return Admin(key_id=caller.key_id, tenant=caller.require_tenant())


def _declared(said: pb.Endpoint) -> Declared:
    return Declared(
        name=said.name,
        forge=FORGES[said.forge],
        forge_instance=said.forge_instance,
        proof=PROOFS[said.proof],
        routes=tuple(_route(route) for route in said.routes),
        bot_ids=frozenset(said.bot_ids),
        trusted_ids=frozenset(said.trusted_ids),
        wanted_events=frozenset(said.wanted_events),
        drafts=DRAFTS[said.drafts],
        body_limit_bytes=said.body_limit_bytes,
    )


def _route(said: pb.Route) -> Route:
    return Route(
        action=said.action,
        queue=said.queue,
        repo_ids=frozenset(said.repo_ids),
        commands=frozenset(said.commands),
        checks=said.checks,
    )


def _route_said(route: Route) -> pb.Route:
    return pb.Route(
        action=route.action,
        queue=route.queue,
        repo_ids=sorted(route.repo_ids),
        commands=sorted(route.commands),
        checks=route.checks,
    )


def _endpoint_said(stored: Stored, webhook_path: str) -> pb.Endpoint:
    row, declared = stored.row, declared_of(stored.row)
    return pb.Endpoint(
        name=row.name,
        forge=_FORGES_SAID[declared.forge],
        forge_instance=row.forge_instance,
        proof=_PROOFS_SAID[declared.proof],
        routes=[_route_said(route) for route in declared.routes],
        bot_ids=row.bot_ids,
        trusted_ids=row.trusted_ids,
        wanted_events=row.wanted_events,
        drafts=_DRAFTS_SAID[declared.drafts],
        body_limit_bytes=row.body_limit_bytes,
        tenant=row.tenant,
        webhook_path=webhook_path,
        secrets=[_secret(secret) for secret in stored.secrets],
        created_at=_timestamp(row.created_at),
        changed_at=_timestamp(row.changed_at),
        disabled_at=_timestamp(row.disabled_at),
    )


def _secret(row: SecretRow) -> pb.EndpointSecret:
    return pb.EndpointSecret(
        version=row.version,
        live_from=_timestamp(row.live_from),
        live_until=_timestamp(row.live_until),
        sealing_key_id=row.sealing_key_id,
    )


def _timestamp(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp

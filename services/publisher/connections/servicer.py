"""Protobuf in, protobuf out, for ConnectionService; no token ever goes out."""

from datetime import datetime

from fencepost.publisher.v1 import connections_pb2 as pb
from fencepost.publisher.v1 import connections_pb2_grpc
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from services.publisher.connections.operations import ConnectionOperations, PutConnection
from services.publisher.connections.store import ConnectionRow
from services.publisher.model import ForgeKind
from shared.rpc.caller import current_caller

PAGE_SIZE = 100
PREFIX = "FORGE_KIND_"

Context = aio.ServicerContext[object, object]


class ConnectionServicer(connections_pb2_grpc.ConnectionServiceServicer):
    """ConnectionService."""

    def __init__(self, connections: ConnectionOperations) -> None:
        self._connections = connections

    async def PutConnection(  # noqa: N802  (the contract's name)
        self, request: pb.PutConnectionRequest, _context: Context
    ) -> pb.PutConnectionResponse:
        """Makes or changes one."""
        put = await self._connections.put(_put_connection(request))
        return pb.PutConnectionResponse(connection=_connection(put.connection), changed=put.changed)

    async def ListConnections(  # noqa: N802  (the contract's name)
        self, request: pb.ListConnectionsRequest, _context: Context
    ) -> pb.ListConnectionsResponse:
        """One page of the caller's."""
        page = await self._connections.page(
            current_caller().tenant_or_all(),
            size=request.page_size or PAGE_SIZE,
            token=request.page_token,
        )
        return pb.ListConnectionsResponse(
            connections=[_connection(row) for row in page.connections],
            next_page_token=page.next_page_token,
        )

    async def DisableConnection(  # noqa: N802  (the contract's name)
        self, request: pb.DisableConnectionRequest, _context: Context
    ) -> pb.DisableConnectionResponse:
        """Ends its use."""
        caller = current_caller()
        row = await self._connections.disable(
            tenant=caller.require_tenant(),
            forge_instance=request.forge_instance,
            reason=request.reason,
            key_id=caller.key_id,
        )
        return pb.DisableConnectionResponse(connection=_connection(row))

    async def RotateSealingKey(  # noqa: N802  (the contract's name)
        self, _request: pb.RotateSealingKeyRequest, _context: Context
    ) -> pb.RotateSealingKeyResponse:
        """Seals under the active key what another one seals."""
        caller = current_caller()
        rotated = await self._connections.rotate(caller.tenant_or_all(), key_id=caller.key_id)
        return pb.RotateSealingKeyResponse(
            active_key_id=rotated.active_key_id,
            rewrapped=rotated.rewrapped,
            unopened=[_connection(row) for row in rotated.unopened],
        )


def _put_connection(request: pb.PutConnectionRequest) -> PutConnection:
    caller = current_caller()
    return PutConnection(
        tenant=caller.require_tenant(),
        key_id=caller.key_id,
        forge=ForgeKind(pb.ForgeKind.Name(request.forge).removeprefix(PREFIX).lower()),
        forge_instance=request.forge_instance,
        base_url=request.base_url.rstrip("/"),
        token=request.token,
        enable=request.enable,
    )


def _connection(row: ConnectionRow) -> pb.Connection:
    return pb.Connection(
        tenant=row.tenant,
        forge_instance=row.forge_instance,
        forge=pb.ForgeKind.Value(PREFIX + row.forge.upper()),
        base_url=row.base_url,
        version=row.version,
        sealing_key_id=row.sealing_key_id,
        created_at=_timestamp(row.created_at),
        changed_at=_timestamp(row.changed_at),
        disabled_at=None if row.disabled_at is None else _timestamp(row.disabled_at),
    )


def _timestamp(moment: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp

"""Protobuf in, protobuf out, for API keys."""

from datetime import datetime

from fencepost.watchdog.v1 import access_pb2 as pb
from fencepost.watchdog.v1.access_pb2_grpc import AccessServiceServicer
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from services.watchdog.access.operations import (
    AccessOperations,
    Admin,
    CreateKey,
    RotateKey,
)
from services.watchdog.access.store import KeyRow
from shared.rpc.caller import current_caller, scope_name, scope_of

PAGE_SIZE_DEFAULT = 100

Context = aio.ServicerContext[object, object]


class AccessServicer(AccessServiceServicer):
    """AccessService."""

    def __init__(self, operations: AccessOperations) -> None:
        self._operations = operations

    async def CreateKey(  # noqa: N802  (the contract's name)
        self, request: pb.CreateKeyRequest, _context: Context
    ) -> pb.CreateKeyResponse:
        """Makes a key and shows its credential, once."""
        has_end = request.HasField("valid_for")
        command = CreateKey(
            admin=_admin(),
            request_id=request.request_id,
            label=request.label,
            scopes=tuple(scope_name(scope) for scope in request.scopes),
            valid_for_ms=request.valid_for.ToMilliseconds() if has_end else None,
        )
        made = await self._operations.create(command)
        return pb.CreateKeyResponse(key=_key(made.key), credential=made.credential.text)

    async def RotateKey(  # noqa: N802  (the contract's name)
        self, request: pb.RotateKeyRequest, _context: Context
    ) -> pb.RotateKeyResponse:
        """Makes a successor and shows its credential, once."""
        command = RotateKey(
            admin=_admin(),
            request_id=request.request_id,
            key_id=request.key_id,
            overlap_ms=_ms(request.overlap),
        )
        made = await self._operations.rotate(command)
        return pb.RotateKeyResponse(key=_key(made.key), credential=made.credential.text)

    async def RevokeKey(  # noqa: N802  (the contract's name)
        self, request: pb.RevokeKeyRequest, _context: Context
    ) -> pb.RevokeKeyResponse:
        """Ends a key."""
        return pb.RevokeKeyResponse(
            key=_key(await self._operations.revoke(_admin(), request.key_id))
        )

    async def ListKeys(  # noqa: N802  (the contract's name)
        self, request: pb.ListKeysRequest, _context: Context
    ) -> pb.ListKeysResponse:
        """One page of keys."""
        page = await self._operations.page(
            current_caller().tenant_or_all(),
            size=request.page_size or PAGE_SIZE_DEFAULT,
            token=request.page_token,
        )
        return pb.ListKeysResponse(
            keys=[_key(row) for row in page.keys], next_page_token=page.next_page_token
        )


def _admin() -> Admin:
    caller = current_caller()
    return Admin(
        key_id=caller.key_id,
        tenant=caller.tenant_or_all(),
        scopes=frozenset(scope_name(scope) for scope in caller.scopes),
    )


def _key(row: KeyRow) -> pb.ApiKey:
    known = (scope_of(name) for name in row.scopes)
    return pb.ApiKey(
        key_id=row.key_id,
        tenant=row.tenant or "",
        label=row.label,
        scopes=[scope for scope in known if scope is not None],
        created_at=_timestamp(row.created_at),
        ends_at=None if row.ends_at is None else _timestamp(row.ends_at),
        rotated_from=row.rotated_from or "",
    )


def _ms(duration: Duration) -> int:
    return duration.ToMilliseconds()


def _timestamp(moment: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp

"""GetServerInfo: what this server is and how far it goes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import fencepost
from fencepost.common.v1.server_info_pb2 import GetServerInfoRequest, GetServerInfoResponse
from fencepost.common.v1.server_info_pb2_grpc import ServerInfoServiceServicer
from grpc import aio

from shared.schema.revision import SCHEMA_REVISION
from shared.settings import RuntimeSettings

LIMIT_SUFFIXES = ("_bytes", "_ms", "_max", "_min")


@dataclass(frozen=True, kw_only=True)
class ServerInfo:
    """What it tells; `schema_revision_found` is 0 while the database cannot be read."""

    service: str
    limits: Mapping[str, int]
    schema_revision_found: Callable[[], int]


class ServerInfoServicer(ServerInfoServiceServicer):
    """Answers any valid key."""

    def __init__(self, info: ServerInfo) -> None:
        self._info = info

    async def GetServerInfo(  # noqa: N802  (the contract's name)
        self,
        request: GetServerInfoRequest,  # noqa: ARG002  (asks for nothing in particular)
        context: aio.ServicerContext[GetServerInfoRequest, GetServerInfoResponse],  # noqa: ARG002
    ) -> GetServerInfoResponse:
        return GetServerInfoResponse(
            service=self._info.service,
            version=fencepost.__version__,
            schema_revision_expected=SCHEMA_REVISION,
            schema_revision_found=self._info.schema_revision_found(),
            limits=self._info.limits,
        )


def limits_of(settings: RuntimeSettings) -> dict[str, int]:
    """The settings that are limits: whole numbers whose name ends in a unit or in max or min."""
    return {
        name: value
        for name, value in settings.model_dump().items()
        if type(value) is int and name.endswith(LIMIT_SUFFIXES)
    }

"""A session whose stream the server ends while a frame is written."""

from typing import cast

import pytest
from fencepost.calls import ENDED_WHILE_WRITING, SessionCall
from fencepost.dispatcher.v1.work_pb2 import WorkRequest, WorkResponse
from fencepost.errors import FencepostError
from grpc import StatusCode, aio

Call = aio.StreamStreamCall[WorkRequest, WorkResponse]


class Ending:
    """A call that fails each write as grpc.aio does."""

    def __init__(self, code: StatusCode, details: str) -> None:
        self._error = aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details)

    async def write(self, _request: WorkRequest) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("code", "details", "retriable"),
    [
        (StatusCode.INTERNAL, ENDED_WHILE_WRITING, True),
        (StatusCode.INTERNAL, "something else", False),
        (StatusCode.UNAVAILABLE, "gone", True),
    ],
)
async def test_what_may_be_opened_again(code: StatusCode, details: str, retriable: bool) -> None:
    call = SessionCall(cast(Call, Ending(code, details)), [])
    with pytest.raises(FencepostError) as error:
        await call.write(WorkRequest())
    assert error.value.retriable is retriable

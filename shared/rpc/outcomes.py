"""How a call ended, and what its caller is told: the one place where errors become statuses."""

import secrets
from dataclasses import dataclass
from typing import Final, NoReturn

from fencepost.errors import FencepostError, Internal
from fencepost.metadata import RETRY_PUSHBACK, STATUS_DETAILS
from fencepost.status import to_status
from grpc import StatusCode, aio

Context = aio.ServicerContext[bytes, bytes]

ERROR_ID_BYTES = 8
DEADLINE_BLUR_S = 0.02
"""A caller's own clock ends the call about when ours does; within this it was the deadline."""

FAULTS: Final = frozenset(
    {
        StatusCode.UNKNOWN,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.UNIMPLEMENTED,
        StatusCode.INTERNAL,
        StatusCode.UNAVAILABLE,
        StatusCode.DATA_LOSS,
    }
)
"""Codes that OpenTelemetry counts as errors of a server; the others are the caller's."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The true code; `error` is what the caller is told, `fault` what only the log may know."""

    code: StatusCode
    error: FencepostError | None = None
    fault: BaseException | None = None

    @property
    def reason(self) -> str:
        """Reason of the error, else the name of its code; empty for success."""
        if self.error is not None and self.error.reason:
            return self.error.reason
        return "" if self.code is StatusCode.OK else self.code.name

    @property
    def error_id(self) -> str:
        """What the caller can name for us to find the fault."""
        return self.error.error_id if isinstance(self.error, Internal) else ""


OK: Final = Outcome(StatusCode.OK)


def outcome_of(error: BaseException) -> Outcome:
    """An error of the contract is told as it is, any other becomes one fixed sentence."""
    if isinstance(error, FencepostError):
        return Outcome(error.code, error)
    internal = Internal(error_id=secrets.token_hex(ERROR_ID_BYTES))
    return Outcome(internal.code, internal, error)


def cancelled(context: Context) -> Outcome:
    """The call was cut off: by its deadline, else because the caller is gone."""
    remaining_s: float | None = context.time_remaining()
    if remaining_s is not None and remaining_s < DEADLINE_BLUR_S:
        return Outcome(StatusCode.DEADLINE_EXCEEDED)
    return Outcome(StatusCode.CANCELLED)


async def tell(context: Context, outcome: Outcome) -> NoReturn:
    """Ends the call with the status of its error; raises grpc's AbortError."""
    error = outcome.error
    assert error is not None, "a call that ended well has nothing to tell"
    status = to_status(error)
    trailing: list[tuple[str, str | bytes]] = [(STATUS_DETAILS, status.SerializeToString())]
    retry_after_ms = getattr(error, "retry_after_ms", None)
    if retry_after_ms is not None:
        trailing.append((RETRY_PUSHBACK, str(retry_after_ms)))
    await context.abort(error.code, status.message, tuple(trailing))

"""What every error of the suite is made of; `fencepost.errors` has them all."""

from dataclasses import dataclass
from typing import ClassVar

from grpc import StatusCode


class FencepostError(Exception):
    """A call was refused or failed; on its own, for a reason that this version does not know."""

    reason: str = ""
    code: StatusCode = StatusCode.UNKNOWN
    retriable: bool = False
    message: str

    def __init__(self, message: str, *, code: StatusCode, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.retriable = code is StatusCode.UNAVAILABLE

    def __str__(self) -> str:
        return self.message


@dataclass(eq=False, kw_only=True)
class Refusal(FencepostError):  # noqa: N818  (a reason is its own name)
    """Base of the known reasons: fields are the facts, `message` the sentence made of them."""

    sentence: ClassVar[str]

    message: str = ""

    def __post_init__(self) -> None:
        self.message = self.message or self.sentence.format(**vars(self))
        self.args = (self.message,)

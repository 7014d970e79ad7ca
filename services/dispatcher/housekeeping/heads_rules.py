"""What follows from a forge's word on a head, beside what is recorded of the change request."""

from dataclasses import dataclass

from shared.schema.states import ChangeRequestState

FIRST_GENERATION = 1


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A change request as it is recorded."""

    generation: int
    state: ChangeRequestState


@dataclass(frozen=True)
class Work:
    """The head is worked on under this generation; `is_new`: nobody has told of it before."""

    generation: int
    is_new: bool


@dataclass(frozen=True)
class Unwanted:
    """Nothing is left to do."""

    reason: str


@dataclass(frozen=True)
class Unclear:
    """Asked again later, and not before the time that the forge named."""

    reason: str
    retry_after_ms: int = 0


@dataclass(frozen=True)
class Blocked:
    """Asked again once a person may have mended the connection; that costs no attempt."""

    reason: str


def decide(state: ChangeRequestState, recorded: Recorded | None) -> Work | Unwanted | Unclear:
    """What becomes of work for the head that a forge has just named. Keeps I7.

    A record is not moved by it: a push or a reopening that is not recorded yet is told by its own
    delivery, and until then its head is worked on under the generation that is current here.
    """
    if state is ChangeRequestState.CLOSED:
        return Unwanted("the change request is closed")
    if recorded is None:
        return Work(FIRST_GENERATION, is_new=True)
    if recorded.state is ChangeRequestState.CLOSED:
        return Unclear("the forge has it open, and nobody has told of its reopening yet")
    return Work(recorded.generation, is_new=False)

"""What is asked of a forge about a change request, and what it may say."""

from dataclasses import dataclass
from datetime import datetime

from shared.schema.states import ChangeRequestState


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A change request whose head is wanted; a renamed repository keeps its id."""

    repo_id: int
    number: int


@dataclass(frozen=True, kw_only=True)
class Head:
    """What the forge has now; `updated_at` None: it did not say."""

    repo_name: str
    head_sha: str
    state: ChangeRequestState
    base_ref: str
    draft: bool
    updated_at: datetime | None
    url: str


@dataclass(frozen=True)
class Gone:
    """The forge says, in its own form, that there is none, or none for this credential."""

    why: str


@dataclass(frozen=True)
class Unknown:
    """Nobody can tell now; `retry_after_ms` is set where the forge named it."""

    why: str
    retry_after_ms: int | None = None


HeadAnswer = Head | Gone | Unknown

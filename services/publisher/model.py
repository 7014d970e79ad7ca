"""What the publisher's rooms hand to each other."""

from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from shared.schema.states import AttemptStatus

REVIEW = "review"
"""Kind of a publication that is a review."""


class ForgeKind(StrEnum):
    """A kind of forge, by whose rules it is spoken to."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"
    FORGEJO = "forgejo"


class Verdict(StrEnum):
    """What a review says as a whole."""

    COMMENT = "comment"
    APPROVE = "approve"
    REQUEST_CHANGES = "request_changes"


@dataclass(frozen=True, kw_only=True)
class LineComment:
    """One remark on a line of the new version of a file."""

    path: str
    line: int
    body: str


@dataclass(frozen=True, kw_only=True)
class Review:
    """A review as its author gave it."""

    verdict: Verdict
    body: str
    comments: tuple[LineComment, ...] = ()

    def content(self) -> dict[str, object]:
        """What its digest is taken of."""
        return {"kind": REVIEW, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Fence:
    """Proof of the right to act, as the dispatch carried it."""

    tenant: str
    key: str
    action: str
    epoch: int
    holder: str


@dataclass(frozen=True, kw_only=True)
class PublishReview:
    """A review to be posted under a lease."""

    fence: Fence
    intent_id: int
    checkpoint_version: int
    name: str
    ordinal: int
    review: Review


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a publication goes: a change request at one head, on one forge."""

    forge: str
    forge_instance: str
    repo_id: int
    repo_name: str
    number: int
    head_sha: str

    @property
    def target(self) -> str:
        """The change request in a publication's identity; a renamed repository keeps it."""
        return f"{self.forge_instance}/{self.repo_id}#{self.number}"


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One attempt's place in the ledger, which the remote object must be able to name."""

    key: str
    publication_id: int
    attempt: int


@dataclass(frozen=True)
class Draft:
    """A request exactly as it will be sent, without the credential; `evidence` stands in it."""

    method: str
    path: str
    body: bytes
    evidence: str

    def as_stored(self) -> bytes:
        """The request as one text: method and path, an empty line, the body."""
        return f"{self.method} {self.path}\n\n".encode() + self.body


@dataclass(frozen=True, kw_only=True)
class Succeeded:
    """The forge confirmed it."""

    status: ClassVar = AttemptStatus.SUCCEEDED

    remote_id: str
    remote_url: str
    result: bytes


@dataclass(frozen=True)
class Refused:
    """Proven not to have happened, by one of the documented proofs."""

    status: ClassVar = AttemptStatus.REFUSED

    detail: str


@dataclass(frozen=True)
class Uncertain:
    """Bytes may have left and no proof came back; what is known."""

    status: ClassVar = AttemptStatus.UNCERTAIN

    detail: str


Outcome = Succeeded | Refused | Uncertain


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt to send a publication, as the ledger has it."""

    attempt: int
    status: AttemptStatus
    epoch: int
    claimed_at: datetime
    settled_at: datetime | None
    remote_id: str
    remote_url: str
    detail: str
    digest: bytes


@dataclass(frozen=True, kw_only=True)
class Publication:
    """One mutation of a remote system with its attempts, oldest first."""

    publication_id: int
    key_label: str
    action: str
    name: str
    kind: str
    target: str
    ordinal: int
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, kw_only=True)
class Published:
    """A publication that stands at the forge."""

    publication: Publication
    duplicate: bool = False
    digest_differs: bool = False

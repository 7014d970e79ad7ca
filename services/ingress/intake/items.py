"""What intake works on: deliveries that were read, and what is decided of each."""

from dataclasses import dataclass

from services.ingress.intake.places import KeyParts
from services.ingress.rules import ChangeRequestEvent, IgnoredReason, Reading, WorkAsked
from services.ingress.submissions import Submission
from shared.keys import Key

PENDING = "pending"
"""Stands for the head in a key until somebody has resolved it; nothing is granted at it (I7)."""

UNRESOLVED_GENERATION = 0


@dataclass(frozen=True)
class Item:
    """A submission with what its forge's module read from it, and what tells its body apart."""

    submission: Submission
    reading: Reading
    body_sha256: bytes

    @property
    def about(self) -> ChangeRequestEvent | WorkAsked:
        """What it tells of or asks for."""
        about = self.reading.event or self.reading.asks
        assert about is not None, "only what may make work is about a repository"
        return about

    def change_request(self, number: int) -> KeyParts:
        """The change request of this number in the repository that it is about."""
        endpoint = self.submission.endpoint
        return endpoint.tenant, endpoint.forge_instance, self.about.repo_id, number


@dataclass(frozen=True)
class Fresh:
    """An item whose delivery id was free, with the number that its delivery is stored under."""

    item: Item
    delivery_seq: int


@dataclass(frozen=True, kw_only=True)
class Target:
    """A head to work on under a generation; without `head_sha` it must be resolved first."""

    number: int
    head_sha: str | None
    generation: int

    def key(self, item: Item, suffix: str) -> Key:
        """Identity of the work."""
        return Key(
            forge_instance=item.submission.endpoint.forge_instance,
            repo_id=item.about.repo_id,
            number=self.number,
            head_sha=self.head_sha or PENDING,
            suffix=suffix,
        )


@dataclass(frozen=True)
class Verdict:
    """What a fresh delivery asks for: work on targets, or nothing, for a reason."""

    targets: tuple[Target, ...] = ()
    ignored: IgnoredReason | None = None

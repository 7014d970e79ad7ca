"""What the publisher asks of a forge, whichever it is."""

from typing import Protocol

from services.publisher.heads.model import Asked, HeadAnswer
from services.publisher.model import Draft, Outcome, Place, Review, Slot


class Forge(Protocol):
    """One instance of a forge, with the credential to write to it."""

    def review_draft(self, place: Place, review: Review, slot: Slot) -> Draft:
        """The request that posts this review, with its evidence; no I/O.

        Raises ResourceNotFound for a place this forge cannot have, FieldInvalid for content that
        it cannot take.
        """
        ...

    async def send(self, draft: Draft) -> Outcome:
        """Sends it once and judges what came back. Keeps P3 and P4."""
        ...


class Heads(Protocol):
    """One instance of a forge, with the credential to read from it."""

    async def find_head(self, asked: Asked) -> HeadAnswer:
        """What the forge has now. Keeps I7; whatever goes wrong is an answer, not an error."""
        ...

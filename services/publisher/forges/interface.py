"""What the publisher asks of a forge, whichever it is."""

from typing import Protocol

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

    async def close(self) -> None:
        """Ends its connections."""
        ...

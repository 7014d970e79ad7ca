"""Commands to the publisher, as a worker with this work under way would send them."""

from typing import Any

from pydantic import SecretStr

from services.publisher.ledger import operations as ledger
from services.publisher.ledger.operations import Claim
from services.publisher.model import (
    Draft,
    Fence,
    Place,
    Published,
    PublishReview,
    Review,
    Slot,
    Verdict,
)
from services.publisher.settings import PublisherSettings
from shared.database import Database, Transaction
from tests.rows import Work

REVIEW = Review(verdict=Verdict.COMMENT, body="Looks right.")
CLAIM_TOKEN = "token-of-this-process"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def publisher_settings(database_url: str) -> PublisherSettings:
    """Settings of a publisher that is not served, and waits as long for a lock as a test may."""
    return PublisherSettings(database_url=SecretStr(database_url), database_lock_timeout_ms=10_000)


def fence_of(work: Work, **changes: Any) -> Fence:
    """The fence a worker with this lease sends."""
    carried = ("tenant", "key", "action", "epoch", "holder")
    return Fence(**{**{name: getattr(work, name) for name in carried}, **changes})


def review_of(work: Work, **changes: Any) -> PublishReview:
    """One review under this lease; changes name fields of the command or of its fence."""
    ours = {name: changes.pop(name) for name in Fence.__dataclass_fields__ if name in changes}
    command = {
        "fence": fence_of(work, **ours),
        "intent_id": work.intent_id,
        "checkpoint_version": work.version,
        "name": "review",
        "ordinal": 0,
        "review": REVIEW,
    }
    return PublishReview(**{**command, **changes})


async def compose(place: Place, slot: Slot) -> Draft:
    """Stands for a forge's own writing: names everything it was given."""
    return Draft("POST", f"/{place.repo_name}", repr(slot).encode(), evidence=f"for {slot}")


async def claim_in(
    tx: Transaction, command: PublishReview, *, claim_token: str = CLAIM_TOKEN
) -> Claim | Published:
    """Claims in this transaction."""
    return await ledger.claim(
        tx, command, compose=compose, claim_token=claim_token, traceparent=TRACEPARENT
    )


async def claim(
    database: Database, command: PublishReview, *, claim_token: str = CLAIM_TOKEN
) -> Claim | Published:
    """Claims in a transaction of its own."""
    return await database.run(lambda tx: claim_in(tx, command, claim_token=claim_token))


async def claimed(database: Database, command: PublishReview, **changes: Any) -> Claim:
    """Claims what nobody has claimed."""
    result = await claim(database, command, **changes)
    assert isinstance(result, Claim)
    return result

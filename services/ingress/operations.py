"""Takes deliveries in, and finds them again. The file to read first is `take_operations`."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from fencepost.errors import (
    BodyTooLarge,
    DatabaseUnavailable,
    DeliveryConflict,
    FieldInvalid,
    Refusal,
    ResourceNotFound,
)
from opentelemetry import trace

from services.ingress import (
    deliveries_store,
    gitea_rules,
    github_rules,
    gitlab_rules,
    refused_operations,
    store,
    take_operations,
)
from services.ingress.body_rules import MalformedError, check_word, is_storable, read_document
from services.ingress.deliveries_store import DeliveryRow
from services.ingress.large_bodies import apart
from services.ingress.metrics import DELIVERIES, DELIVERY_REFUSALS
from services.ingress.settings import IngressSettings
from services.ingress.submissions import Submission, SubmissionOutcome, Taken
from services.ingress.take_operations import Item
from shared import semantic
from shared.database import Database, Transaction
from shared.schema.states import DeliveryOutcome

log = structlog.get_logger(__name__)

READERS = {
    "forgejo": gitea_rules.read,
    "gitea": gitea_rules.read,
    "github": github_rules.read,
    "gitlab": gitlab_rules.read,
}
"""How each forge's events are read: an event's name and its document make a Reading."""


@dataclass(frozen=True)
class Intake:
    """Intake on one database; `wake` is told each queue that has new work, after the commit."""

    database: Database
    settings: IngressSettings
    wake: Callable[[str], None]

    async def submit(self, submissions: Sequence[Submission]) -> list[SubmissionOutcome]:
        """Takes deliveries in, in one transaction; keeps I1, I2, I4, I13.

        A malformed, too large or conflicting one is refused by itself and writes nothing.
        Raises DatabaseUnavailable or Overloaded: then nothing was taken in, unless it says that
        the outcome is unknown; the same delivery ids again tell (X6).
        """
        read = [await self._read(submission) for submission in submissions]
        items = [item for item in read if isinstance(item, Item)]
        taken = iter(await self._take_in(items) if items else [])
        outcomes = [next(taken) if isinstance(each, Item) else each for each in read]
        for submission, outcome in zip(submissions, outcomes, strict=True):
            self._tell(submission, outcome)
        return outcomes

    async def keep_refused(self, submission: Submission, refusal: Refusal) -> None:
        """Records an authentic delivery that was refused, for operators, as it came (I8).

        It takes no delivery id, so that the same one may still be taken in.
        """
        await self.database.run(lambda tx: refused_operations.keep(tx, submission, refusal))
        DELIVERIES.labels(submission.endpoint.name, DeliveryOutcome.REFUSED.value).inc()

    async def seconds_since(self, at_s: int) -> float:
        """How long ago a time was, given in seconds since 1970, by the database's clock."""
        return await self.database.read(store.find_now_s) - at_s

    async def find_delivery(self, *, tenant: str, endpoint: str, delivery_id: str) -> DeliveryRow:
        """The tenant's stored delivery; raises ResourceNotFound (X8)."""
        if not (is_storable(endpoint) and is_storable(delivery_id)):
            raise ResourceNotFound(kind="delivery", name=delivery_id)
        found = await self.database.read(
            lambda tx: deliveries_store.find_delivery(
                tx, tenant=tenant, endpoint=endpoint, delivery_id=delivery_id
            )
        )
        if found is None:
            raise ResourceNotFound(kind="delivery", name=delivery_id)
        return found

    async def _read(self, submission: Submission) -> Item | Refusal:
        limit_bytes = self.settings.body_limit_bytes
        if len(submission.body) > limit_bytes:
            return BodyTooLarge(limit_bytes=limit_bytes)
        try:
            return await apart(submission.body, lambda: _item(submission))
        except MalformedError as malformed:
            return FieldInvalid(violations=[(malformed.field, malformed.sentence)])

    async def _take_in(self, items: Sequence[Item]) -> list[SubmissionOutcome]:
        ttl_seconds = self.settings.dedupe_ttl_seconds

        async def taken(tx: Transaction) -> list[SubmissionOutcome]:
            return await take_operations.take_in(tx, items, ttl_seconds)

        try:
            return await self.database.run(taken)
        except DatabaseUnavailable as lost:
            if not lost.outcome_unknown:
                raise
            unknown = lost
        # The delivery ids say what became of the lost COMMIT: all new, or all taken in (X6).
        try:
            return await self.database.run(taken)
        except DatabaseUnavailable:
            raise unknown from None

    def _tell(self, submission: Submission, outcome: SubmissionOutcome) -> None:
        endpoint = submission.endpoint
        said = outcome.outcome.value if isinstance(outcome, Taken) else outcome.reason
        trace.get_current_span().set_attributes(
            {
                semantic.TENANT: endpoint.tenant,
                semantic.ENDPOINT: endpoint.name,
                semantic.DELIVERY_ID: submission.delivery_id,
                semantic.OUTCOME: said,
            }
        )
        if isinstance(outcome, Taken):
            DELIVERIES.labels(endpoint.name, said).inc()
            if outcome.outcome is DeliveryOutcome.ACCEPTED:
                self.wake(endpoint.routes[0].queue)
            return
        DELIVERY_REFUSALS.labels(endpoint.name, said).inc()
        if isinstance(outcome, DeliveryConflict):
            log.warning("a delivery id came again with another body", why=str(outcome))


def _item(submission: Submission) -> Item:
    check_word("event", submission.event)
    if not is_storable(submission.content_type):
        raise MalformedError("content_type", "must not hold U+0000")
    document = read_document(submission.body, submission.content_type)
    reading = READERS[submission.endpoint.forge](submission.event, document)
    return Item(submission, reading, hashlib.sha256(submission.body).digest())

"""Takes deliveries in, and finds them again. The file to read first is `take_operations`."""

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
from fencepost.errors import (
    BodyTooLarge,
    DatabaseUnavailable,
    FieldInvalid,
    Internal,
    Refusal,
    ResourceNotFound,
)
from opentelemetry import trace

from services.ingress import (
    deliveries_store,
    gitea_rules,
    github_rules,
    gitlab_rules,
    list_operations,
    refused_operations,
    store,
    take_operations,
)
from services.ingress.body_rules import MalformedError, check_word, is_storable, read_document
from services.ingress.deliveries_store import DeliveryRow
from services.ingress.intake.items import Item
from services.ingress.kept_refusals import KeptRefusals
from services.ingress.large_bodies import apart
from services.ingress.list_operations import Page
from services.ingress.list_store import DeliveryFilter
from services.ingress.metrics import DELIVERIES
from services.ingress.refusals import tell_refused
from services.ingress.rules import admitted
from services.ingress.settings import IngressSettings
from services.ingress.submissions import Submission, SubmissionOutcome, Taken
from services.ingress.take_operations import TakenIn
from shared import semantic
from shared.database import ROW_REFUSED, Database, Transaction, Work
from shared.schema.states import DeliveryOutcome

ERROR_ID_BYTES = 8

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
    kept: KeptRefusals = field(default_factory=KeptRefusals)

    async def submit(self, submissions: Sequence[Submission]) -> list[SubmissionOutcome]:
        """Takes a caller's deliveries in, as `take` does, and counts the outcomes."""
        outcomes = await self.take(submissions)
        _count(submissions, outcomes)
        return outcomes

    async def take(self, submissions: Sequence[Submission]) -> list[SubmissionOutcome]:
        """Takes deliveries in, in one transaction; keeps I1, I2, I4, I13.

        A malformed, too large or conflicting one is refused by itself and writes nothing.
        Raises DatabaseUnavailable or Overloaded: then nothing was taken in, unless it says that
        the outcome is unknown; the same delivery ids again tell (X6).
        """
        read = [await self._read(submission) for submission in submissions]
        items = [item for item in read if isinstance(item, Item)]
        taken = iter(await self._take_in(items) if items else [])
        return [next(taken) if isinstance(each, Item) else each for each in read]

    async def keep_refused(self, submission: Submission, refusal: Refusal) -> None:
        """Records an authentic delivery that was refused, for operators, as it came (I4, I8).

        It takes no delivery id, so that the same one may still be taken in. The same body that is
        refused for the same is recorded once an hour.
        """
        if self.kept.has(submission, refusal):
            return
        await self.database.run(lambda tx: refused_operations.keep(tx, submission, refusal))
        self.kept.add(submission, refusal)
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

    async def list_deliveries(self, wanted: DeliveryFilter, *, size: int, token: str) -> Page:
        """A page of the tenant's deliveries; raises FieldInvalid for a foreign token (X8)."""
        return await list_operations.page(self.database, wanted, size=size, token=token)

    async def _read(self, submission: Submission) -> Item | Refusal:
        limit_bytes = submission.endpoint.body_limit_bytes
        if len(submission.body) > limit_bytes:
            return BodyTooLarge(limit_bytes=limit_bytes)
        try:
            return await apart(submission.body, lambda: _item(submission))
        except MalformedError as malformed:
            return FieldInvalid(violations=[(malformed.field, malformed.sentence)])

    async def _take_in(self, items: Sequence[Item]) -> list[SubmissionOutcome]:
        """Takes a list in; where the database refuses one item, its neighbours go without it.

        At most two transactions an item.
        """
        try:
            return await self._commit(items)
        except ROW_REFUSED as error:
            if len(items) == 1:
                return [_unstorable(error)]
            log.warning("a list is taken in by halves: one item was refused", why=_why(error))
        middle = len(items) // 2
        return [*await self._half(items[:middle]), *await self._half(items[middle:])]

    async def _half(self, items: Sequence[Item]) -> Sequence[SubmissionOutcome]:
        try:
            return await self._take_in(items)
        except Refusal as refusal:
            return [refusal] * len(items)

    async def _commit(self, items: Sequence[Item]) -> list[SubmissionOutcome]:
        ttl_seconds = self.settings.dedupe_ttl_seconds

        async def work(tx: Transaction) -> TakenIn:
            return await take_operations.take_in(tx, items, ttl_seconds)

        try:
            taken = await self.database.run(work)
        except DatabaseUnavailable as lost:
            if not lost.outcome_unknown:
                raise
            taken = await self._again(work, lost)
        for queue in taken.filled_queues:
            self.wake(queue)
        return taken.outcomes

    async def _again(self, work: Work[TakenIn], unknown: DatabaseUnavailable) -> TakenIn:
        """The delivery ids say what became of the lost COMMIT: all new, or all taken in (X6)."""
        try:
            return await self.database.run(work)
        except DatabaseUnavailable:
            raise unknown from None


def tell(submission: Submission, outcome: SubmissionOutcome) -> None:
    """Counts the outcome and says it in the span."""
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
    _count([submission], [outcome])


def _count(submissions: Sequence[Submission], outcomes: Sequence[SubmissionOutcome]) -> None:
    taken: Counter[tuple[str, str]] = Counter()
    for submission, outcome in zip(submissions, outcomes, strict=True):
        name = submission.endpoint.name
        if isinstance(outcome, Taken):
            taken[name, outcome.outcome.value] += 1
        else:
            tell_refused(name, outcome.reason, str(outcome))
    for labels, times in taken.items():
        DELIVERIES.labels(*labels).inc(times)


def _unstorable(error: Exception) -> Internal:
    error_id = secrets.token_hex(ERROR_ID_BYTES)
    log.error("a delivery was refused by the database", error_id=error_id, why=_why(error))
    return Internal(error_id=error_id)


def _why(error: Exception) -> str:
    """What the server said, without the row, which may hold what must not be told."""
    return str(error).partition("\n")[0]


def _item(submission: Submission) -> Item:
    check_word("event", submission.event)
    if not is_storable(submission.content_type):
        raise MalformedError("content_type", "must not hold U+0000")
    document = read_document(submission.body, submission.content_type)
    endpoint = submission.endpoint
    reading = admitted(
        READERS[endpoint.forge](submission.event, document),
        submission.event,
        bot_ids=endpoint.bot_ids,
        trusted_ids=endpoint.trusted_ids,
        wanted_events=endpoint.wanted_events,
    )
    return Item(submission, reading, hashlib.sha256(submission.body).digest())

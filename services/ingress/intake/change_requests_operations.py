"""Records what deliveries say of change requests, under the locks of their rows (I9).

The rows are locked or made first, all of a list in one order; what the deliveries say is then
folded in memory, one after the other as they came, and written once.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from services.ingress.endpoints import DraftPolicy
from services.ingress.intake import asks_operations
from services.ingress.intake import change_requests_store as store
from services.ingress.intake.change_requests_store import (
    ChangeRequestRow,
    ChangeRequestWrite,
    Head,
)
from services.ingress.intake.items import Fresh, Item, Target, Verdict
from services.ingress.intake.places import KeyParts, Marks
from services.ingress.rules import (
    ChangeRequestEvent,
    Decision,
    IgnoredReason,
    Known,
    decide,
    first_record,
)
from shared.database import Transaction
from shared.schema.states import ChangeRequestState


@dataclass(frozen=True)
class Judged:
    """What each delivery asks for, by its place in the list, and what is unwanted since."""

    verdicts: dict[int, Verdict]
    unwanted: list[Marks]


@dataclass
class Course:
    """A change request in the course of a list: what is known, and what is to be written."""

    key: KeyParts
    known: Known | None
    before: Marks
    abandoned_through: int
    write: ChangeRequestWrite | None = None
    heads: list[Head] = field(default_factory=list)

    @classmethod
    def of_row(cls, row: ChangeRequestRow) -> "Course":
        """One that was recorded before."""
        known = Known(
            head_sha=row.head_sha,
            generation=row.generation,
            state=row.state,
            updated_at=row.forge_updated_at,
        )
        before = _marks(row.key, known, row.abandoned_through)
        return cls(row.key, known, before, row.abandoned_through)

    @classmethod
    def of_new(cls, key: KeyParts) -> "Course":
        """One whose row was made just now from the event that it takes first."""
        return cls(key, None, _marks(key, None, 0), 0)

    def take(self, item: Item, event: ChangeRequestEvent) -> Decision:
        """Goes on by one event."""
        takes_drafts = item.submission.endpoint.drafts is DraftPolicy.TAKE
        decision = decide(self.known, event, takes_drafts=takes_drafts)
        if decision.record is not None:
            self.abandoned_through = _abandoned(decision.record, self.abandoned_through)
            if self.known is not None:
                self.write = _write(item, event, decision.record, self.abandoned_through)
            self.known = decision.record
        if decision.becomes_current and self.known is not None:
            self.heads.append(Head(self.key, self.known.generation, self.known.head_sha))
        return decision

    def marks(self) -> Marks:
        """What is unwanted by now."""
        return _marks(self.key, self.known, self.abandoned_through)

    @property
    def unrecorded_heads(self) -> list[Head]:
        """Those that became current in this list; the first of all stands with the row."""
        return [head for head in self.heads if head.generation > self.before.superseded_through + 1]

    def was_current(self, head_sha: str) -> bool:
        """Whether the head became current in this list."""
        return any(head.head_sha == head_sha for head in self.heads)


async def judge(tx: Transaction, fresh: Mapping[int, Fresh]) -> Judged:
    """Verdicts in the order in which the deliveries came, whoever else tells of the same."""
    courses = await _begin(tx, [each.item for each in fresh.values()])
    verdicts: dict[int, Verdict] = {}
    doubtful: dict[int, tuple[KeyParts, str]] = {}
    for n, item in ((n, each.item) for n, each in fresh.items()):
        event, asks = item.reading.event, item.reading.asks
        if event is not None:
            course = courses[item.change_request(event.number)]
            was_current = course.was_current(event.head_sha)
            decision = course.take(item, event)
            verdicts[n] = _verdict(item, event, decision, was_current=was_current)
            if decision.unless_known and verdicts[n].ignored is None:
                doubtful[n] = (course.key, event.head_sha)
        elif asks is not None:
            known = {key: course.known for key, course in courses.items()}
            verdicts[n] = asks_operations.verdict_on(item, asks, known)
        else:
            verdicts[n] = Verdict(ignored=item.reading.ignored)
    for n in await _known_before(tx, doubtful):
        verdicts[n] = Verdict(ignored=IgnoredReason.HEAD_OUTDATED)
    await _record(tx, courses.values())
    marks = [(course.before, course.marks()) for course in courses.values()]
    return Judged(verdicts, [after for before, after in marks if after != before])


async def _begin(tx: Transaction, items: Sequence[Item]) -> dict[KeyParts, Course]:
    """Locks the rows that exist and makes those that are told of, from what is said first.

    One that is only asked for, and that nobody has told of, has no course.
    """
    first: dict[KeyParts, ChangeRequestWrite] = {}
    for item in items:
        if (event := item.reading.event) is not None:
            key = item.change_request(event.number)
            record = first_record(event)
            first.setdefault(key, _write(item, event, record, _abandoned(record, 0)))
    asking = [item for item in items if item.reading.asks is not None]
    named = {*first, *await asks_operations.named_by(tx, asking)}
    if not named:
        return {}
    rows = await store.lock_change_requests(tx, named)
    if missing := [write for key, write in first.items() if key not in rows]:
        made = await store.insert_change_requests(tx, missing)
        if rivals := [write.key for write in missing if write.key not in made]:
            rows |= await store.lock_change_requests(tx, rivals)
    new = {key: Course.of_new(key) for key in first if key not in rows}
    return {**new, **{key: Course.of_row(row) for key, row in rows.items()}}


def _marks(key: KeyParts, known: Known | None, abandoned_through: int) -> Marks:
    return Marks(
        change_request=key,
        superseded_through=0 if known is None else known.generation - 1,
        abandoned_through=abandoned_through,
    )


def _abandoned(record: Known, before: int) -> int:
    return record.generation if record.state is ChangeRequestState.CLOSED else before


def _write(
    item: Item, event: ChangeRequestEvent, record: Known, abandoned_through: int
) -> ChangeRequestWrite:
    return ChangeRequestWrite(
        key=item.change_request(event.number),
        forge=item.submission.endpoint.forge,
        repo_name=event.repo_name,
        url=event.url,
        base_ref=event.base_ref,
        head_sha=record.head_sha,
        generation=record.generation,
        state=record.state,
        forge_updated_at=record.updated_at,
        abandoned_through=abandoned_through,
    )


def _verdict(
    item: Item, event: ChangeRequestEvent, decision: Decision, *, was_current: bool
) -> Verdict:
    ignored = item.reading.ignored or decision.ignored
    if ignored is not None:
        return Verdict(ignored=ignored)
    if decision.unless_known and was_current:
        return Verdict(ignored=IgnoredReason.HEAD_OUTDATED)
    target = Target(number=event.number, head_sha=event.head_sha, generation=decision.generation)
    return Verdict((target,))


async def _known_before(tx: Transaction, doubtful: Mapping[int, tuple[KeyParts, str]]) -> list[int]:
    """Those whose head was current before this list."""
    if not doubtful:
        return []
    known = await store.find_known_heads(tx, list(dict.fromkeys(doubtful.values())))
    return [n for n, head in doubtful.items() if head in known]


async def _record(tx: Transaction, courses: Collection[Course]) -> None:
    """Writes what has changed since the rows were locked or made, each row once."""
    if writes := [course.write for course in courses if course.write is not None]:
        moved = await store.update_change_requests(tx, writes)
        assert moved == len(writes), "a locked change request went on without us"
    if heads := [head for course in courses for head in course.unrecorded_heads]:
        store.insert_heads(tx, heads)

"""Finds what asked work is for: the change requests it names, or the open ones at its commit."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from services.ingress.intake import change_requests_store as store
from services.ingress.intake.change_requests_store import Commit
from services.ingress.intake.items import UNRESOLVED_GENERATION, Item, Target, Verdict
from services.ingress.intake.places import KeyParts
from services.ingress.rules import FIRST_GENERATION, IgnoredReason, Known, WorkAsked
from shared.database import Transaction
from shared.schema.states import ChangeRequestState


async def named_by(tx: Transaction, items: Sequence[Item]) -> set[KeyParts]:
    """Every change request that these may be for, known or not; none is locked yet."""
    asking = [(item, item.reading.asks) for item in items if item.reading.asks is not None]
    named = {item.change_request(number) for item, asks in asking for number in _numbers(asks)}
    commits = [
        _commit(item, asks.head_sha)
        for item, asks in asking
        if asks.head_sha is not None and not _numbers(asks)
    ]
    return named | await store.find_open_at(tx, commits) if commits else named


def verdict_on(item: Item, asks: WorkAsked, known: Mapping[KeyParts, Known | None]) -> Verdict:
    """Work on each change request that is not closed, at its present generation."""
    numbers = _numbers(asks) or tuple(_at_commit(item, asks, known))
    records = [(number, known.get(item.change_request(number))) for number in numbers]
    targets = tuple(
        _target(number, asks.head_sha, record)
        for number, record in records
        if record is None or record.state is ChangeRequestState.OPEN
    )
    if targets:
        return Verdict(targets)
    return Verdict(ignored=IgnoredReason.CLOSED if records else IgnoredReason.HEAD_UNKNOWN)


def _target(number: int, head_sha: str | None, record: Known | None) -> Target:
    generation = FIRST_GENERATION if record is None else record.generation
    if head_sha is None:
        generation = UNRESOLVED_GENERATION
    return Target(number=number, head_sha=head_sha, generation=generation)


def _numbers(asks: WorkAsked) -> tuple[int, ...]:
    return tuple(sorted({*asks.pull_numbers})) if asks.number is None else (asks.number,)


def _at_commit(
    item: Item, asks: WorkAsked, known: Mapping[KeyParts, Known | None]
) -> Iterator[int]:
    for (tenant, instance, repo_id, number), record in sorted(known.items(), key=itemgetter(0)):
        is_here = (tenant, instance, repo_id) == item.change_request(number)[:3]
        if is_here and record is not None and record.head_sha == asks.head_sha:
            yield number


def _commit(item: Item, head_sha: str) -> Commit:
    tenant, instance, repo_id, _ = item.change_request(0)
    return tenant, instance, repo_id, head_sha

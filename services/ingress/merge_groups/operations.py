"""Ends the work for a merge group that is gone, and makes none for it afterwards.

A group's row is locked by whoever asks for its checks and by whoever tells of its end, so that of
the two one comes after the other, in whichever order their deliveries come. It is locked after the
change requests and before the leases (X7); the dispatcher locks it there too before it grants.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from services.ingress.intake import unwanted_store
from services.ingress.intake.change_requests_operations import Judged
from services.ingress.intake.items import Fresh, Verdict
from services.ingress.merge_groups import store
from services.ingress.merge_groups.store import Commit, Group
from services.ingress.rules import AskKind, IgnoredReason
from shared.database import Transaction

GONE = "the merge group is gone"


@dataclass(frozen=True)
class Grouped:
    """What is judged by now, and the groups that this list tells the end of."""

    judged: Judged
    gone: tuple[Group, ...]


async def judge(
    tx: Transaction, fresh: Mapping[int, Fresh], judged: Judged, ttl_seconds: int
) -> Grouped:
    """Takes the work from what is asked for a group that is gone.

    What a list asks for and tells the end of is gone.
    """
    asked = dict(_asked(fresh, judged.verdicts))
    ended = dict(_ended(fresh))
    if not asked and not ended:
        return Grouped(judged, ())
    groups = await store.mark(tx, _merged([*asked.values(), *ended.values()]), ttl_seconds)
    gone = Verdict(ignored=IgnoredReason.GROUP_GONE)
    refused = {n: gone for n, group in asked.items() if groups[group.commit].is_gone}
    return Grouped(
        replace(judged, verdicts={**judged.verdicts, **refused}),
        tuple(groups[commit] for commit in dict.fromkeys(each.commit for each in ended.values())),
    )


async def end_leases(tx: Transaction, gone: Sequence[Group]) -> dict[int, int]:
    """Fences who works for these groups; returns the attempts of the intents by their numbers."""
    if not gone:
        return {}
    running = await store.lock_running(tx, gone)
    if running:
        ended = await unwanted_store.end_leases(tx, running, abandoned_because=GONE)
        assert ended == len(running), "a locked lease went on without us"
    return {lease.intent_id: lease.attempts for lease in running}


async def settle(tx: Transaction, gone: Sequence[Group], attempts: Mapping[int, int]) -> None:
    """Marks what is not finished for these groups as abandoned."""
    if gone:
        found = await store.lock_open(tx, gone)
        await unwanted_store.settle(tx, found, attempts, abandoned_because=GONE)


def _asked(
    fresh: Mapping[int, Fresh], verdicts: Mapping[int, Verdict]
) -> Iterator[tuple[int, Group]]:
    """The groups that deliveries want work for, and that may get it."""
    for n, each in fresh.items():
        asks = each.item.reading.asks
        numbers = tuple(target.number for target in verdicts[n].targets)
        if asks is None or asks.kind is not AskKind.MERGE_GROUP or not numbers:
            continue
        assert asks.head_sha is not None, "a merge group has a commit"
        yield n, Group(_commit(each, asks.repo_id, asks.head_sha), numbers, is_gone=False)


def _ended(fresh: Mapping[int, Fresh]) -> Iterator[tuple[int, Group]]:
    for n, each in fresh.items():
        if (gone := each.item.reading.gone) is not None:
            yield n, Group(_commit(each, gone.repo_id, gone.head_sha), gone.numbers, is_gone=True)


def _commit(fresh: Fresh, repo_id: int, head_sha: str) -> Commit:
    endpoint = fresh.item.submission.endpoint
    return endpoint.tenant, endpoint.forge_instance, repo_id, head_sha


def _merged(groups: Sequence[Group]) -> list[Group]:
    """One for each commit, in order: a statement may write a row once."""
    merged: dict[Commit, Group] = {}
    for each in groups:
        other = merged.get(each.commit, each)
        numbers = tuple(sorted({*other.numbers, *each.numbers}))
        merged[each.commit] = Group(each.commit, numbers, is_gone=other.is_gone or each.is_gone)
    return [merged[commit] for commit in sorted(merged)]

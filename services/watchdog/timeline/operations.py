"""Tells the story of a delivery or a change request, read in one snapshot."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fencepost.errors import FieldInvalid
from fencepost.metadata import TENANT

from services.watchdog.settings import WatchdogSettings
from services.watchdog.timeline import events_rules, standing_rules, store, work_store
from services.watchdog.timeline.events_rules import Event
from services.watchdog.timeline.store import Place
from services.watchdog.timeline.story_rules import (
    Attempt,
    ChangeRequest,
    Delivery,
    Dispatch,
    Endpoint,
    Flush,
    Head,
    Hold,
    Intent,
    Lease,
    Ready,
    Story,
    Waiting,
)
from services.watchdog.timeline.subject_rules import url_forms
from shared.database import Database, Transaction

TENANTS_SHOWN_MAX = 5


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A story as it is told; `truncated` says that the oldest events were left out."""

    title: str
    events: list[Event]
    standing: str
    next_commands: list[str]
    truncated: bool


@dataclass(frozen=True)
class ByDelivery:
    """The story of one delivery and of the work on its key."""

    delivery_id: str


@dataclass(frozen=True)
class ByUrl:
    """The story of a change request, all its heads included."""

    url: str


Subject = ByDelivery | ByUrl


@dataclass(frozen=True, kw_only=True)
class _About:
    """What a story is about: `place` None where no change request is spoken of, `keys` None for
    every key of it."""

    place: Place | None
    keys: tuple[str, ...] | None
    deliveries: tuple[Delivery, ...] = ()
    change_request: ChangeRequest | None = None


class TimelineOperations:
    """Stories from one database."""

    def __init__(self, database: Database, settings: WatchdogSettings) -> None:
        self._database = database
        self._events_max = settings.timeline_events_max

    async def timeline(self, tenant: str | None, subject: Subject) -> Timeline:
        """The story, for the tenant or for an operator of all; also that nothing was received.

        Raises FieldInvalid for a URL that is none, and when several tenants have such a story.
        Keeps X8.
        """
        limit = self._events_max + 1
        story = await self._database.read(lambda tx: tell(tx, tenant, subject, limit=limit))
        return told(story, events_max=self._events_max)


def told(story: Story, *, events_max: int) -> Timeline:
    """The newest events of a story whose lists were cut at one row more than that, and the rest."""
    found = events_rules.events(story)
    return Timeline(
        title=story.title,
        events=found[-events_max:],
        standing=standing_rules.standing(story),
        next_commands=standing_rules.next_commands(story),
        # A list that was cut has more rows, and so more events, than fit.
        truncated=len(found) > events_max,
    )


async def tell(tx: Transaction, tenant: str | None, subject: Subject, *, limit: int) -> Story:
    """Reads everything that is known of the subject, each list cut at `limit` rows."""
    now = await store.in_one_snapshot(tx)
    if isinstance(subject, ByDelivery):
        about = await _about_delivery(tx, tenant, subject.delivery_id, limit=limit)
        story = Story(now=now, asked_for=subject.delivery_id, by_delivery=True)
    else:
        about = await _about_url(tx, tenant, subject.url, limit=limit)
        story = Story(now=now, asked_for=subject.url, by_delivery=False)
    if about is None:
        heard = await store.endpoints(tx, Endpoint, tenant=tenant)
        return replace(story, endpoints=tuple(heard))
    story = replace(story, change_request=about.change_request, deliveries=about.deliveries)
    if about.place is None:
        return story
    return await _with_work(tx, story, about.place, keys=about.keys, limit=limit)


async def _about_delivery(
    tx: Transaction, tenant: str | None, delivery_id: str, *, limit: int
) -> _About | None:
    named = await store.deliveries_by_id(
        tx, Delivery, tenant=tenant, delivery_id=delivery_id, limit=limit
    )
    if not named:
        return None
    _require_one_tenant(each.tenant for each in named)
    newest = next((each for each in named if each.key is not None), None)
    if newest is None or newest.repo_id is None or newest.number is None:
        return _About(place=None, keys=None, deliveries=tuple(named))
    place = Place(
        tenant=newest.tenant,
        forge_instance=newest.forge_instance,
        repo_id=newest.repo_id,
        number=newest.number,
    )
    keys = tuple(sorted({each.key for each in named if each.key is not None}))
    of_keys = await store.deliveries_of(tx, Delivery, place, keys=keys, limit=limit)
    return _About(
        place=place,
        keys=keys,
        deliveries=tuple({each.delivery_seq: each for each in [*named, *of_keys]}.values()),
        change_request=await store.change_request(tx, ChangeRequest, place),
    )


async def _about_url(tx: Transaction, tenant: str | None, url: str, *, limit: int) -> _About | None:
    urls = url_forms(url)
    if not urls:
        sentence = "must be the http:// or https:// address of a pull or merge request"
        raise FieldInvalid(violations=[("change_request_url", sentence)])
    found = await store.change_requests_by_url(tx, ChangeRequest, tenant=tenant, urls=urls)
    if not found:
        return None
    _require_one_tenant(each.tenant for each in found)
    # Several at one address: a repository was made anew under an old name.
    newest = found[0]
    place = Place(
        tenant=newest.tenant,
        forge_instance=newest.forge_instance,
        repo_id=newest.repo_id,
        number=newest.number,
    )
    deliveries = await store.deliveries_of(tx, Delivery, place, keys=None, limit=limit)
    return _About(place=place, keys=None, deliveries=tuple(deliveries), change_request=newest)


def _require_one_tenant(tenants: Iterable[str]) -> None:
    """An operator of all must say whose story is meant where several tenants have one."""
    named = sorted(set(tenants))
    if len(named) > 1:
        shown = ", ".join(named[:TENANTS_SHOWN_MAX])
        sentence = f"must name one of the tenants that have this: {shown}"
        raise FieldInvalid(violations=[(TENANT, sentence)])


async def _with_work(
    tx: Transaction, story: Story, place: Place, *, keys: tuple[str, ...] | None, limit: int
) -> Story:
    tenant = place.tenant
    intents = await work_store.intents(tx, Intent, place, keys=keys, limit=limit)
    ids = [each.intent_id for each in intents]
    all_keys = sorted({each.key for each in intents} | set(keys or ()))
    return replace(
        story,
        heads=tuple(await store.heads(tx, Head, place, keys=keys, limit=limit)),
        intents=tuple(intents),
        dispatches=tuple(
            await work_store.dispatches(tx, Dispatch, tenant=tenant, intent_ids=ids, limit=limit)
        ),
        leases=tuple(await work_store.running_leases(tx, Lease, tenant=tenant, intent_ids=ids)),
        flushes=tuple(
            await work_store.flushes(tx, Flush, tenant=tenant, keys=all_keys, limit=limit)
        ),
        attempts=tuple(
            await work_store.attempts(tx, Attempt, tenant=tenant, keys=all_keys, limit=limit)
        ),
        ready=tuple(await work_store.ready(tx, Ready, tenant=tenant, intent_ids=ids)),
        waiting=tuple(await work_store.waiting(tx, Waiting, tenant=tenant, intent_ids=ids)),
        holds=tuple(await _holds(tx, place, intents, limit=limit)),
    )


async def _holds(
    tx: Transaction, place: Place, intents: Sequence[Intent], *, limit: int
) -> list[Hold]:
    if not intents:
        return []
    return await work_store.holds(
        tx,
        Hold,
        place,
        actions=sorted({each.action for each in intents}),
        since=min(each.created_at for each in intents),
        limit=limit,
    )

"""Where the work stands now and what a person can do: waits, done, or nothing was received."""

import shlex
from collections.abc import Iterator

from services.watchdog.timeline.events_rules import (
    IGNORED_BECAUSE,
    SETTLED_AS,
    published,
    worker,
)
from services.watchdog.timeline.story_rules import (
    Attempt,
    Endpoint,
    Intent,
    Lease,
    Ready,
    Story,
    Waiting,
)
from services.watchdog.timeline.words_rules import because, count, moment
from shared.schema.states import (
    AttemptStatus,
    ChangeRequestState,
    DeliveryOutcome,
    IntentStatus,
    SessionState,
    WaitsOn,
)

SHOWN_MAX = 5
STATUS = "fencepost status"
NOT_RECORDED = (
    "What is not authentic is not recorded, nor what is too large unless it is GitLab's: the "
    "forge's own list of deliveries shows the answer it got."
)

UNTIL_THEN = "; if that worker is dead, the work waits until then (DISPATCHER_LEASE_MS)"
NEW_WORK = (
    "A new delivery for its head makes new work, and so does an intent that is enqueued for its "
    "key; a redelivery under an id that was taken in does not."
)

# What tells how the work of one action ended. Of equals the newest does: work that died is done
# once newer work for it succeeded.
WEIGHT = {
    IntentStatus.SUCCEEDED: 0,
    IntentStatus.DEAD: 0,
    IntentStatus.CANCELLED: 1,
    IntentStatus.ABANDONED: 2,
    IntentStatus.SUPERSEDED: 3,
    IntentStatus.REDRIVEN: 4,
    IntentStatus.JOINED: 5,
    IntentStatus.DUPLICATE: 6,
}


def standing(story: Story) -> str:
    """What it waits for and since when, or that it is done, or that nothing was received.

    One sentence a line, what needs a person first.
    """
    if not story.deliveries and not story.intents and story.change_request is None:
        return _nothing_received(story)
    sentences = [*_in_doubt(story), *_open(story)]
    if not any(intent.status is IntentStatus.OPEN for intent in story.intents):
        sentences += _settled(story)
    return "\n".join(sentences)


def next_commands(story: Story) -> list[str]:
    """Commands that exist and make sense now, safe to paste into a shell."""
    change_request = story.change_request
    if not story.deliveries and not story.intents and change_request is None:
        return [*_submit(story), STATUS]
    commands = []
    if story.by_delivery and change_request is not None:
        commands.append(f"fencepost timeline {shlex.quote(change_request.url)}")
    is_open = any(intent.status is IntentStatus.OPEN for intent in story.intents)
    if is_open or any(intent.status is IntentStatus.DEAD for intent in _telling(story)):
        commands.append(STATUS)
    return commands


def _submit(story: Story) -> Iterator[str]:
    if story.by_delivery and len(story.endpoints) == 1:
        endpoint = story.endpoints[0]
        named = f" --tenant {shlex.quote(endpoint.tenant)}" if endpoint.tenant else ""
        yield (
            f"fencepost submit PAYLOAD.json --endpoint {shlex.quote(endpoint.endpoint)} "
            f"--event pull_request --delivery-id {shlex.quote(story.asked_for)}{named}"
        )


def _nothing_received(story: Story) -> str:
    asked_for = f"delivery {story.asked_for}" if story.by_delivery else story.asked_for
    first = f"Nothing was received for {asked_for}."
    if not story.endpoints:
        return f"{first}\nNo endpoint has ever received anything."
    heard = [_heard(endpoint, story) for endpoint in story.endpoints[:SHOWN_MAX]]
    hidden = len(story.endpoints) - len(heard)
    rest = f"; and {count(hidden, 'more endpoint')}" if hidden else ""
    known = f"{'; '.join(heard)}{rest}.".replace("endpoint", "Endpoint", 1)
    return f"{first}\n{known}\n{NOT_RECORDED}"


def _heard(endpoint: Endpoint, story: Story) -> str:
    name = f"{endpoint.tenant}/{endpoint.endpoint}" if endpoint.tenant else endpoint.endpoint
    if endpoint.heard_at is None:
        return f"endpoint {name} has long been silent"
    return f"endpoint {name} was last heard at {moment(endpoint.heard_at, story.now)}"


def _in_doubt(story: Story) -> Iterator[str]:
    held = {lease.intent_id for lease in story.leases}
    for attempt in story.attempts:
        abandoned = attempt.status is AttemptStatus.RUNNING and attempt.intent_id not in held
        if attempt.status is AttemptStatus.UNCERTAIN or abandoned:
            yield _doubt(attempt, story)


def _doubt(attempt: Attempt, story: Story) -> str:
    since = moment(attempt.settled_at or attempt.claimed_at, story.now)
    where = story.change_request.url if story.change_request else attempt.target
    return (
        f"Publication {attempt.publication_id} ({attempt.name}) has been in doubt since {since}: "
        "nothing is sent again, and nothing in this release settles that by itself. Whether it is "
        f"on the forge, its marker tells: look for `{marked(attempt)}` in the source of what "
        f"stands at {where}"
    )


def marked(attempt: Attempt) -> str:
    """What the hidden marker of this attempt says, and no other's."""
    return f"publication={attempt.publication_id} attempt={attempt.attempt}"


def _open(story: Story) -> Iterator[str]:
    still_open = [each for each in story.intents if each.status is IntentStatus.OPEN]
    still_open.sort(key=lambda each: each.intent_id)
    for intent in still_open[:SHOWN_MAX]:
        yield f"Intent {intent.intent_id} ({intent.action}) {_where(intent, story)}"
    if len(still_open) > SHOWN_MAX:
        yield f"{count(len(still_open) - SHOWN_MAX, 'more intent')} of it are open."
    if still_open:
        yield from _holds(story)


def _holds(story: Story) -> Iterator[str]:
    for hold in story.holds:
        if hold.released_at is None:
            since = moment(hold.placed_at, story.now)
            why = because(hold.reason)
            yield f"Hold {hold.hold_id} has stopped its publications since {since}{why}"


def _where(intent: Intent, story: Story) -> str:
    """Where an open intent stands; the row that holds it says."""
    for lease in story.leases:
        if lease.intent_id == intent.intent_id:
            return _held(lease, story)
    for waiting in story.waiting:
        if waiting.intent_id == intent.intent_id:
            return _waits(waiting, story)
    for ready in story.ready:
        if ready.intent_id == intent.intent_id:
            since = moment(ready.entered_at, story.now)
            return f"has been ready since {since}: {_takers(ready)}"
    return "is open and stands nowhere: a fault of ours; keep this page and report it."


def _waits(waiting: Waiting, story: Story) -> str:
    since = moment(waiting.since, story.now)
    why = because(waiting.reason)
    match waiting.waits_on:
        case WaitsOn.TIME:
            return (
                f"has waited since {since} and is due at {moment(waiting.due_at, story.now)}{why}"
            )
        case WaitsOn.LEASE:
            return f"has waited since {since} for the holder of its key{why}"
        case WaitsOn.PUBLICATION:
            publication = f"publication {waiting.publication_id}"
            return f"has waited since {since} for {publication} to be settled{why}"
        case WaitsOn.HEAD:
            return f"has waited since {since} for the forge to say its head{why}"


def _takers(ready: Ready) -> str:
    if ready.workers == 0:
        return f"no worker serves queue {ready.queue} now; start one."
    return f"{count(ready.workers, 'worker')} could take it from queue {ready.queue}."


def _held(lease: Lease, story: Story) -> str:
    now = story.now
    since = moment(lease.granted_at, now)
    held = f"has been with {worker(lease)} since {since}"
    if lease.claimable_at <= now:
        over = moment(lease.claimable_at, now)
        return f"{held}; its lease ran out at {over} and it will be handed on."
    heard = then = ""
    if lease.session_state is not None and lease.session_heard_at is not None:
        lost = lease.session_state is not SessionState.OPEN
        stream = ", whose stream is lost" if lost else ""
        heard = f"; last heard of {moment(lease.session_heard_at, now)}{stream}"
        then = UNTIL_THEN if lost else ""
    ends = moment(lease.claimable_at, now)
    return f"{held}{heard}. Unless renewed, its lease ends at {ends}{then}."


def _settled(story: Story) -> Iterator[str]:
    """How the newest generation of the work ended, by action; without any, why none was made."""
    telling = _telling(story)
    if not telling:
        yield _no_work(story)
    # What needs a person comes first.
    for intent in sorted(telling, key=lambda each: each.status is not IntentStatus.DEAD):
        named = f"{intent.action}: " if len(telling) > 1 else ""
        yield f"{named}{_end(intent, story)}"
    if story.change_request and story.change_request.state is ChangeRequestState.CLOSED:
        yield "The change request is closed."


def _telling(story: Story) -> list[Intent]:
    """Of each action, the settled intent of the newest generation that tells how its work ended."""
    settled = [intent for intent in story.intents if intent.status is not IntentStatus.OPEN]
    newest = max((intent.generation for intent in settled), default=0)
    current = [intent for intent in settled if intent.generation == newest]
    telling: dict[str, Intent] = {}
    for intent in sorted(current, key=lambda each: (WEIGHT[each.status], -each.intent_id)):
        telling.setdefault(intent.action, intent)
    return list(telling.values())


def _end(intent: Intent, story: Story) -> str:
    assert intent.settled_at is not None, "only an open intent is not settled"
    at = moment(intent.settled_at, story.now)
    why = because(intent.reason)
    if intent.status is IntentStatus.DEAD:
        died = f"Intent {intent.intent_id} died at {at}, it is not tried again by itself{why}"
        return f"{died}\n{NEW_WORK}"
    if intent.status is not IntentStatus.SUCCEEDED:
        return f"Intent {intent.intent_id} {SETTLED_AS[intent.status]} at {at}{why}"
    remote = [
        f"publication {each.publication_id} ({each.name}) {published(each)}"
        for each in story.attempts
        if each.status is AttemptStatus.SUCCEEDED and each.intent_id == intent.intent_id
    ]
    shown = "; ".join(reversed(remote[:SHOWN_MAX]))
    return f"Done at {at}: {shown}" if shown else f"Done at {at}; nothing was published."


def _no_work(story: Story) -> str:
    last = max(story.deliveries, key=lambda each: each.received_at, default=None)
    if last is None:
        return "No work was made for it."
    at = moment(last.received_at, story.now)
    if last.outcome is DeliveryOutcome.IGNORED:
        why = because(IGNORED_BECAUSE.get(last.reason, last.reason))
        return f"Nothing to do: the last delivery, at {at}, was ignored{why}"
    if last.outcome is DeliveryOutcome.REFUSED:
        return f"Nothing to do: the last delivery, at {at}, was refused: {last.reason}."
    return f"The last delivery came at {at}, and its work is no longer kept."

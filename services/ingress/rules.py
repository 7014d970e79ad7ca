"""Which head is current and whether a delivery makes work: decided from what the forge says.

Order of arrival proves nothing. An event is newer than what is recorded when the forge dates it
later, or when it starts from exactly what is recorded (pushed from that head, reopened from
closed) and is not dated earlier. It is older when it is dated earlier. Everything else is unclear:
then the recorded head stays, and the delivered head gets its work all the same, under the current
generation, unless it was current before: it becomes current again only by a push, which tells of
itself. Doubt about closing counts as open: looking at a closed change request is waste, missing an
open one is a loss.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType

from shared.schema.states import ChangeRequestState

FIRST_GENERATION = 1
RERUN_DIGITS = 16

MERGE_GROUP = "merge-group"
"""Suffix of the work for merge groups: no newer head of a change request concerns it."""


class IgnoredReason(StrEnum):
    """Why a delivery was recorded and makes no work."""

    PING = "ping"
    EVENT_UNWANTED = "event-unwanted"
    ACTION_UNWANTED = "action-unwanted"
    DRAFT = "draft"
    CLOSED = "closed"
    HEAD_OUTDATED = "head-outdated"
    REF_DELETED = "ref-deleted"
    NO_COMMITS = "no-commits"
    OWN_BOT = "own-bot"
    NO_ROUTE = "no-route"
    HEAD_UNKNOWN = "head-unknown"
    NO_CHANGE_REQUEST = "no-change-request"
    NO_COMMAND = "no-command"
    EDITED_BY_ANOTHER = "edited-by-another"
    SENDER_IS_BOT = "sender-is-bot"
    SENDER_UNTRUSTED = "sender-untrusted"
    REVIEW_OF_ANOTHER = "review-of-another"
    GROUP_GONE = "group-gone"


IGNORED_REASONS: Mapping[IgnoredReason, str] = MappingProxyType(
    {
        IgnoredReason.PING: "The forge only asked whether somebody listens.",
        IgnoredReason.EVENT_UNWANTED: "No work follows from events of this name.",
        IgnoredReason.ACTION_UNWANTED: "The event is wanted, but not with this action.",
        IgnoredReason.DRAFT: "Drafts get their work when they are ready for review.",
        IgnoredReason.CLOSED: "The change request is closed.",
        IgnoredReason.HEAD_OUTDATED: "A newer head is recorded.",
        IgnoredReason.REF_DELETED: "A branch or a tag is gone: nothing is left to look at.",
        IgnoredReason.NO_COMMITS: "The change request has no commit yet.",
        IgnoredReason.OWN_BOT: "A bot of ours caused it.",
        IgnoredReason.NO_ROUTE: "No route of the endpoint takes work of this kind.",
        IgnoredReason.HEAD_UNKNOWN: "No open change request is known at this commit.",
        IgnoredReason.NO_CHANGE_REQUEST: "The comment is on something else than a change request.",
        IgnoredReason.NO_COMMAND: "No line of the comment is a command.",
        IgnoredReason.EDITED_BY_ANOTHER: "Only who wrote a comment gives commands with it.",
        IgnoredReason.SENDER_IS_BOT: "People ask for work by hand; this was a bot.",
        IgnoredReason.SENDER_UNTRUSTED: "Nothing shows that the sender may command.",
        IgnoredReason.REVIEW_OF_ANOTHER: "The review is asked of somebody else.",
        IgnoredReason.GROUP_GONE: "The merge group is gone: nothing is said of it any more.",
    }
)
"""Every reason with the sentence that documents it."""


class Transition(StrEnum):
    """What brought a change request to the state that an event shows."""

    OPENED = "opened"
    PUSHED = "pushed"
    REOPENED = "reopened"
    READIED = "readied"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True)
class ChangeRequestEvent:
    """What a delivery says of a change request, the same for every forge.

    `from_fork` says that people without write access may have made the head.
    """

    transition: Transition
    repo_id: int
    repo_name: str
    number: int
    head_sha: str
    before_sha: str | None
    base_ref: str
    state: ChangeRequestState
    draft: bool
    updated_at: datetime | None
    url: str
    from_fork: bool


@dataclass(frozen=True, kw_only=True)
class Sender:
    """Who caused a delivery, as far as its forge says; `app_id` is the app it was done by (I8)."""

    account_id: int | None
    login: str
    app_id: int | None = None


class AskKind(StrEnum):
    """How work was asked for that follows from no new head."""

    COMMAND = "command"
    RERUN = "rerun"
    CHECKS = "checks"
    MERGE_GROUP = "merge-group"


@dataclass(frozen=True, kw_only=True)
class WorkAsked:
    """Work that changes no record of heads.

    COMMANDs stand in the comment `comment_id`. A RERUN is a person's; without `number` it is
    meant for `pull_numbers`, those that the forge named, or for every open change request at
    `head_sha`; one with `reviewer_ids` is meant for these alone. CHECKS are wanted for a new
    commit, those of a MERGE_GROUP for the commit that its queue made.
    """

    kind: AskKind
    repo_id: int
    repo_name: str
    number: int | None
    head_sha: str | None
    url: str
    comment_id: int | None = None
    commands: tuple[str, ...] = ()
    pull_numbers: tuple[int, ...] = ()
    reviewer_ids: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GoneGroup:
    """A merge group that its queue has let go, and the change requests that its branch named."""

    repo_id: int
    head_sha: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a forge's module read from a body.

    At most one of `event` and `asks` is there. `ignored` says why no work follows; what `event`
    tells of heads is recorded all the same. `unproven` is asked for by a sender of whom the body
    does not show that they may: the endpoint decides. Nothing is worked on for what is `gone`.
    """

    event_action: str
    event: ChangeRequestEvent | None
    asks: WorkAsked | None = None
    unproven: WorkAsked | None = None
    gone: GoneGroup | None = None
    sender: Sender | None = None
    ignored: IgnoredReason | None
    projection: Mapping[str, str | int | bool]


def admitted(
    reading: Reading,
    event: str,
    *,
    bot_ids: Collection[int],
    trusted_ids: Collection[int],
    wanted_events: Collection[str],
) -> Reading:
    """The reading, without what an endpoint does not take (I8).

    That are events it does not want, its bots' own, and reviews that are asked of others. What a
    bot of ours pushed is recorded, and makes no work. What only the endpoint can vouch for is
    asked for where it trusts the sender.
    """
    if wanted_events and event not in wanted_events:
        reason = reading.ignored or IgnoredReason.EVENT_UNWANTED
        return replace(reading, event=None, asks=None, gone=None, ignored=reason)
    if reading.sender is not None and _is_own(reading.sender, bot_ids):
        return replace(reading, asks=None, ignored=IgnoredReason.OWN_BOT)
    if reading.unproven is not None and _is_trusted(reading.sender, trusted_ids):
        return replace(reading, asks=reading.unproven, ignored=None)
    if _is_for_others(reading.asks, bot_ids):
        return replace(reading, asks=None, ignored=IgnoredReason.REVIEW_OF_ANOTHER)
    return reading


def _is_own(sender: Sender, bot_ids: Collection[int]) -> bool:
    return sender.account_id in bot_ids or sender.app_id in bot_ids


def _is_trusted(sender: Sender | None, trusted_ids: Collection[int]) -> bool:
    """Whether the forge's number of the account is named; names of accounts change hands."""
    return sender is not None and sender.account_id in trusted_ids


def _is_for_others(asks: WorkAsked | None, bot_ids: Collection[int]) -> bool:
    """Whether a review is asked of somebody, and of nobody of ours."""
    return asks is not None and bool(asks.reviewer_ids) and not {*asks.reviewer_ids} & {*bot_ids}


def suffixes_of(
    asks: WorkAsked | None, *, delivery_id: str, commands: Collection[str], checks: bool
) -> tuple[str, ...]:
    """What sets the works apart that a route takes; none where it takes none (I6, I13).

    Commands and checks go only where they are wanted. A re-run of a change request goes where its
    heads go.
    """
    match asks:
        case None:
            return ("",)
        case WorkAsked(kind=AskKind.COMMAND):
            taken = [command for command in asks.commands if command in commands]
            only = len(commands) == 1
            return tuple(f"manual-{asks.comment_id}{'' if only else f'.{each}'}" for each in taken)
        case WorkAsked(kind=AskKind.RERUN) if checks or asks.number is not None:
            return (f"rerun-{sha256(delivery_id.encode()).hexdigest()[:RERUN_DIGITS]}",)
        case WorkAsked(kind=AskKind.CHECKS) if checks:
            return ("",)
        case WorkAsked(kind=AskKind.MERGE_GROUP) if checks:
            return (MERGE_GROUP,)
        case _:
            return ()


@dataclass(frozen=True, kw_only=True)
class Known:
    """A change request as it is recorded."""

    head_sha: str
    generation: int
    state: ChangeRequestState
    updated_at: datetime | None


class Standing(StrEnum):
    """How an event stands to what is recorded."""

    NEWER = "newer"
    OLDER = "older"
    UNCLEAR = "unclear"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What becomes of the change request, and of the delivery.

    `record` is what to write, None when the record stands. `becomes_current` says that its head
    starts `generation`, the one to work under. `unless_known`: no work follows where the delivered
    head was current before.
    """

    record: Known | None
    becomes_current: bool
    generation: int
    unless_known: bool = False
    ignored: IgnoredReason | None


def standing(known: Known, event: ChangeRequestEvent) -> Standing:
    """Whether the forge says that the event came after what is recorded."""
    if known.updated_at is None:
        return Standing.NEWER if event.updated_at or _follows(known, event) else Standing.UNCLEAR
    if event.updated_at is not None and event.updated_at < known.updated_at:
        return Standing.OLDER
    if _follows(known, event):
        return Standing.NEWER
    if event.updated_at is not None and event.updated_at > known.updated_at:
        return Standing.NEWER
    return Standing.UNCLEAR


def first_record(event: ChangeRequestEvent) -> Known:
    """What to record of a change request that nobody has told of yet."""
    return Known(
        head_sha=event.head_sha,
        generation=FIRST_GENERATION,
        state=event.state,
        updated_at=event.updated_at,
    )


def decide(
    known: Known | None, event: ChangeRequestEvent, *, takes_drafts: bool = False
) -> Decision:
    """What an event changes. The generation rises exactly when a head becomes current."""
    if takes_drafts and event.draft:
        event = replace(event, draft=False)
    if known is None:
        return Decision(
            record=first_record(event),
            becomes_current=True,
            generation=FIRST_GENERATION,
            ignored=_ignored_by_itself(event),
        )
    match standing(known, event):
        case Standing.NEWER:
            return _advance(known, event)
        case Standing.OLDER:
            ignored = _ignored_by_itself(event) or _ignored_as_late(known, event)
            return _leave(known, ignored)
        case Standing.UNCLEAR:
            return _doubt(known, event)


def _advance(known: Known, event: ChangeRequestEvent) -> Decision:
    becomes_current = _becomes_current(known, event)
    generation = known.generation + becomes_current
    return Decision(
        record=Known(
            head_sha=event.head_sha,
            generation=generation,
            state=event.state,
            updated_at=event.updated_at or known.updated_at,
        ),
        becomes_current=becomes_current,
        generation=generation,
        ignored=_ignored_by_itself(event),
    )


def _leave(known: Known, ignored: IgnoredReason | None, *, unless_known: bool = False) -> Decision:
    return Decision(
        record=None,
        becomes_current=False,
        generation=known.generation,
        unless_known=unless_known,
        ignored=ignored,
    )


def _doubt(known: Known, event: ChangeRequestEvent) -> Decision:
    ignored = _ignored_by_itself(event)
    if known.state is ChangeRequestState.CLOSED and ignored is None:
        generation = known.generation + 1
        return Decision(
            record=replace(known, generation=generation, state=ChangeRequestState.OPEN),
            becomes_current=True,
            generation=generation,
            ignored=None,
        )
    moved = event.head_sha != known.head_sha and event.transition is not Transition.PUSHED
    return _leave(known, ignored, unless_known=moved)


def _becomes_current(known: Known, event: ChangeRequestEvent) -> bool:
    if event.head_sha != known.head_sha:
        return True
    if event.state is ChangeRequestState.CLOSED:
        return False
    return known.state is ChangeRequestState.CLOSED or event.transition is Transition.REOPENED


def _follows(known: Known, event: ChangeRequestEvent) -> bool:
    match event.transition:
        case Transition.PUSHED:
            return event.before_sha == known.head_sha
        case Transition.REOPENED:
            return known.state is ChangeRequestState.CLOSED
        case _:
            return False


def _ignored_by_itself(event: ChangeRequestEvent) -> IgnoredReason | None:
    if event.state is ChangeRequestState.CLOSED:
        return IgnoredReason.CLOSED
    return IgnoredReason.DRAFT if event.draft else None


def _ignored_as_late(known: Known, event: ChangeRequestEvent) -> IgnoredReason | None:
    if known.state is ChangeRequestState.CLOSED:
        return IgnoredReason.CLOSED
    return IgnoredReason.HEAD_OUTDATED if event.head_sha != known.head_sha else None

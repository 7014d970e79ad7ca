"""What the readers of all forges share: how a reading is put together, and what is left out of it.

A field that nothing depends on may be absent or null; one that is there must be of its type.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from services.ingress.body_rules import MalformedError
from services.ingress.fields_rules import Fields
from services.ingress.rules import ChangeRequestEvent, IgnoredReason, Reading, Sender, WorkAsked

ACTION_CHARACTERS_MAX = 100
NAME_CHARACTERS_MAX = 200
URL_CHARACTERS_MAX = 500

NO_COMMIT = re.compile("0{40}|0{64}")
"""What stands for a commit where there is none, in repositories of either kind."""

Projection = Mapping[str, str | int | bool]

T = TypeVar("T")


def leaf(read_leaf: Callable[[], T | None]) -> T | None:
    """What nothing depends on is left out where it is not what it should be."""
    try:
        return read_leaf()
    except MalformedError:
        return None


def projected(found: Mapping[str, str | int | bool | None]) -> Projection:
    """What was found, without what was not."""
    return {name: value for name, value in found.items() if value is not None}


def sender_of(about: Projection) -> Sender | None:
    """Who sent it, where that was found."""
    login, account_id, app_id = (about.get(each) for each in ("sender", "sender_id", "app_id"))
    if login is None and account_id is None:
        return None
    return Sender(
        account_id=account_id if isinstance(account_id, int) else None,
        login=login if isinstance(login, str) else "",
        app_id=app_id if isinstance(app_id, int) else None,
    )


def ignored(event_action: str, reason: IgnoredReason, about: Projection) -> Reading:
    """A delivery that is recorded, whatever is in it, and makes no work."""
    return Reading(
        event_action=event_action,
        event=None,
        sender=sender_of(about),
        ignored=reason,
        projection=about,
    )


def told(event_action: str, event: ChangeRequestEvent, about: Projection, *, title: str) -> Reading:
    """A delivery that tells of a change request."""
    return Reading(
        event_action=event_action,
        event=event,
        sender=sender_of(about),
        ignored=None,
        projection={
            **about,
            "number": event.number,
            "head_sha": event.head_sha,
            "base_ref": event.base_ref,
            "state": event.state.value,
            "draft": event.draft,
            "updated_at": event.updated_at.isoformat() if event.updated_at else "",
            "url": event.url,
            "title": title,
            "from_fork": event.from_fork,
        },
    )


def asked(event_action: str, asks: WorkAsked, about: Projection) -> Reading:
    """A delivery that asks for work without telling of a change request."""
    return Reading(
        event_action=event_action,
        event=None,
        asks=asks,
        sender=sender_of(about),
        ignored=None,
        projection={
            **about,
            **projected(
                {
                    "asks": asks.kind.value,
                    "number": asks.number,
                    "head_sha": asks.head_sha,
                    "url": asks.url,
                    "commands": " ".join(asks.commands) or None,
                }
            ),
        },
    )


def deletes_ref(push: Fields) -> bool:
    """Whether a push is the end of a branch or a tag: it leaves no commit behind."""
    after = leaf(lambda: push.optional_text("after"))
    return leaf(lambda: push.optional_flag("deleted")) is True or (
        after is not None and NO_COMMIT.fullmatch(after) is not None
    )


def web_address(fields: Fields, name: str) -> str:
    """An address that people may follow; empty when there is none."""
    url = fields.optional_text(name, URL_CHARACTERS_MAX + 1) or ""
    if url and (len(url) > URL_CHARACTERS_MAX or not url.startswith(("https://", "http://"))):
        raise MalformedError(
            fields.path(name),
            f"must be an http address of at most {URL_CHARACTERS_MAX} characters",
        )
    return url

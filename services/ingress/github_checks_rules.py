"""GitHub's checks that are asked for again, by people, and for the first time, by GitHub itself.

The app of a check is not who sent the event: a person who runs our own check again is not us.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from services.ingress.fields_rules import INT64_MAX, Fields
from services.ingress.github_parts_rules import about, action_of, is_by_bot
from services.ingress.reading_rules import (
    NAME_CHARACTERS_MAX,
    asked,
    ignored,
    leaf,
    projected,
    web_address,
)
from services.ingress.rules import AskKind, GoneGroup, IgnoredReason, Reading, WorkAsked

RUN_ASKS: Mapping[str, AskKind] = MappingProxyType(
    {"rerequested": AskKind.RERUN, "requested_action": AskKind.RERUN}
)
SUITE_ASKS: Mapping[str, AskKind] = MappingProxyType(
    {"rerequested": AskKind.RERUN, "requested": AskKind.CHECKS}
)
CHECKS_REQUESTED = "checks_requested"
DESTROYED = "destroyed"

_QUEUED_PULL = re.compile(r"(?:^|-)pr-([1-9][0-9]{0,18})(?=-)")


def read_check_run(body: Fields) -> Reading:
    """A check that somebody runs again, or whose button somebody pressed."""
    return _read(body, "check_run", RUN_ASKS)


def read_check_suite(body: Fields) -> Reading:
    """All checks of a commit: somebody runs them again, or the commit is new."""
    return _read(body, "check_suite", SUITE_ASKS)


def read_merge_group(body: Fields) -> Reading:
    """A commit that a merge queue made to be checked before it merges, or that it has let go."""
    action, group = action_of(body), body.object("merge_group")
    if action == CHECKS_REQUESTED:
        head_ref = group.optional_text("head_ref") or ""
        asks = _asks(body, group, AskKind.MERGE_GROUP, pull_numbers=pulls_queued(head_ref))
        return asked(action, asks, about(body))
    found = projected({"head_sha": leaf(lambda: group.optional_commit("head_sha"))})
    if action != DESTROYED:
        return ignored(action, IgnoredReason.ACTION_UNWANTED, {**about(body), **found})
    reading = ignored(action, IgnoredReason.GROUP_GONE, {**about(body), **found})
    return replace(reading, gone=_gone(body, group))


def _gone(body: Fields, group: Fields) -> GoneGroup:
    return GoneGroup(
        repo_id=body.object("repository").number("id"),
        head_sha=group.commit("head_sha"),
        numbers=pulls_queued(group.optional_text("head_ref") or ""),
    )


def pulls_queued(head_ref: str) -> tuple[int, ...]:
    """The pull requests that a queue's branch names: gh-readonly-queue/<base>/pr-<n>-<sha>."""
    found = map(int, _QUEUED_PULL.findall(head_ref.rpartition("/")[2]))
    return tuple(dict.fromkeys(number for number in found if number <= INT64_MAX))


def _read(body: Fields, name: str, wanted: Mapping[str, AskKind]) -> Reading:
    action = action_of(body)
    kind = wanted.get(action)
    if kind is None:
        return ignored(action, IgnoredReason.ACTION_UNWANTED, about(body))
    check = body.object(name)
    asks = _asks(body, check, kind, pull_numbers=_pull_numbers(body, check))
    if kind is AskKind.RERUN and is_by_bot(body):
        return ignored(action, IgnoredReason.SENDER_IS_BOT, about(body))
    return asked(action, asks, about(body))


def _asks(
    body: Fields, check: Fields, kind: AskKind, *, pull_numbers: tuple[int, ...]
) -> WorkAsked:
    repository = body.object("repository")
    return WorkAsked(
        kind=kind,
        repo_id=repository.number("id"),
        repo_name=repository.text("full_name", NAME_CHARACTERS_MAX),
        number=None,
        head_sha=check.commit("head_sha"),
        url=web_address(check, "html_url"),
        pull_numbers=pull_numbers,
    )


def _pull_numbers(body: Fields, check: Fields) -> tuple[int, ...]:
    """This repository's: a commit may be the head of pull requests elsewhere as well.

    None are listed where the head comes from a fork.
    """
    here = (None, body.object("repository").number("id"))
    pulls = check.objects("pull_requests")
    return tuple(dict.fromkeys(each.number("number") for each in pulls if _base(each) in here))


def _base(pull: Fields) -> int | None:
    return leaf(lambda: pull.object("base").object("repo").number("id"))

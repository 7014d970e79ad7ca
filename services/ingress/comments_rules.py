"""Commands in comments: what counts as one, and who may give it.

A command is a line that begins with `/word`: lower-case letters, digits and hyphens, then the end
of the line or a blank. Lines inside a fence of code or a hidden `<!-- -->` are none, nor are quoted
lines, which begin with `>`.

It counts for what sent the delivery, not for what the comment says of its author: one that
somebody else edited asks for nothing. Who may give commands must be known from the body or from the
endpoint, or nobody may (I6).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from services.ingress.reading_rules import Projection, asked, ignored, sender_of
from services.ingress.rules import IgnoredReason, Reading, WorkAsked

COMMENT_CHARACTERS_MAX = 65_536
"""GitHub takes no longer comment; of a longer one the rest is not looked at."""

COMMANDS_MAX = 10
"""Commands beyond these are not looked at."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_COMMAND = re.compile(r"/([a-z][a-z0-9-]{0,49})(?:[ \t].*)?")
_FENCE = re.compile(r" {0,3}(`{3,}+(?!.*`)|~{3,}).*")
_FENCE_END = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*")


@dataclass(frozen=True, kw_only=True)
class Comment:
    """A comment on a change request, as its forge tells of it.

    `trusted` says that the body shows that its author may give commands, `by_bot` that it was a
    program that sent it.
    """

    text: str
    author_id: int | None
    trusted: bool
    by_bot: bool
    closed: bool


def commands_of(text: str) -> tuple[str, ...]:
    """The commands of a comment, each once, in order."""
    found = (_COMMAND.fullmatch(line) for line in _plain_lines(text))
    return tuple(dict.fromkeys(each[1] for each in found if each))[:COMMANDS_MAX]


def read_commands(
    event_action: str,
    comment: Comment,
    about: Projection,
    ask: Callable[[tuple[str, ...]], WorkAsked],
) -> Reading:
    """What a comment asks for; `ask` tells where it stands, and is called when there is a need."""
    commands = commands_of(comment.text)
    reason = _why_nothing(comment, commands, about)
    if reason is not None:
        return ignored(event_action, reason, about)
    reading = asked(event_action, ask(commands), about)
    return reading if comment.trusted else _unproven(reading)


def _why_nothing(
    comment: Comment, commands: tuple[str, ...], about: Projection
) -> IgnoredReason | None:
    sender = sender_of(about)
    if not commands:
        return IgnoredReason.NO_COMMAND
    if comment.closed:
        return IgnoredReason.CLOSED
    if comment.by_bot:
        return IgnoredReason.SENDER_IS_BOT
    if sender is None or sender.account_id is None or sender.account_id != comment.author_id:
        return IgnoredReason.EDITED_BY_ANOTHER
    return None


def _unproven(reading: Reading) -> Reading:
    """What is asked for only if the endpoint trusts who sent it."""
    return replace(
        reading, asks=None, unproven=reading.asks, ignored=IgnoredReason.SENDER_UNTRUSTED
    )


def _plain_lines(text: str) -> Iterator[str]:
    """Lines that are shown as they are written."""
    fence = ""
    hidden = False
    for line in _LINE_END.split(text):
        if hidden:
            hidden = "-->" not in line
        elif fence:
            closing = _FENCE_END.fullmatch(line)
            fence = "" if closing and closing[1].startswith(fence) else fence
        elif opening := _FENCE.fullmatch(line):
            fence = opening[1]
        else:
            hidden = line.rfind("<!--") > line.rfind("-->")
            yield line

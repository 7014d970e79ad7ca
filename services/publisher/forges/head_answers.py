"""What forges' answers say of a head: what all of them have in common.

A 404 counts only in the forge's own form: a proxy's says nothing. Whatever an answer lacks or
tells of another change request is unknown, never guessed.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import urlsplit

from services.publisher.forges.answers import json_object, shown
from services.publisher.forges.transport import Answer, Reply
from services.publisher.heads.model import Gone, Head, Unknown
from shared.schema.states import ChangeRequestState

Document = Mapping[str, object]

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
TEXT_CHARACTERS_MAX = 1000
RETRY_AFTER_MAX_S = 86_400


def judge(
    reply: Reply, *, subject: str, is_not_found: Callable[[Document], bool]
) -> Document | Gone | Unknown:
    """The object that was asked for, or what its absence means."""
    if not isinstance(reply, Answer):
        return Unknown(shown(reply.why))
    document = json_object(reply)
    if reply.status == 200 and document is not None:
        return document
    if reply.status == 404 and document is not None and is_not_found(document):
        return Gone(f"the forge knows no {subject}, or shows it to others only")
    return Unknown(f"status {reply.status} for the {subject}", _retry_after_ms(reply))


def head_of(
    *,
    repo_name: object,
    head_sha: object,
    state: ChangeRequestState | None,
    base_ref: object,
    draft: object,
    updated_at: object,
    url: object,
) -> Head | Unknown:
    """A head made of what a forge said, or what of it cannot be."""
    if not isinstance(head_sha, str) or not COMMIT.fullmatch(head_sha):
        return Unknown("the answer names no head")
    if state is None:
        return Unknown("the answer does not say whether it is open")
    if not (_is_text(repo_name) and _is_text(base_ref) and _is_text(url)):
        return Unknown("the answer names no repository, base or page")
    if urlsplit(str(url)).scheme not in ("http", "https"):
        return Unknown("the answer's page has no web address")
    return Head(
        repo_name=str(repo_name),
        head_sha=head_sha,
        state=state,
        base_ref=str(base_ref),
        draft=draft is True,
        updated_at=_moment(updated_at),
        url=str(url),
    )


def leaf(document: Document, *path: str) -> object:
    """The value at this place; None where there is no such place."""
    value: object = document
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= TEXT_CHARACTERS_MAX and value.isprintable()


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo is None else moment


def _retry_after_ms(answer: Answer) -> int | None:
    given = answer.headers.get("retry-after", "")
    if not re.fullmatch(r"\d{1,9}", given, re.ASCII):
        return None
    return min(int(given), RETRY_AFTER_MAX_S) * 1000

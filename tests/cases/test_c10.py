"""A comment that somebody else edited: authority is the sender's, and a command runs once.

What an approval by command may do is the publisher's part.
"""

from typing import Any

import pytest

from tests.cases.asking import CONTRIBUTOR, MAINTAINER, keys, post
from tests.services.ingress.published import comment_document
from tests.services.ingress.webhooks.posting import Door


def comment(
    text: str, action: str = "created", *, comment_id: int, sender: dict[str, Any] = MAINTAINER
) -> dict[str, Any]:
    """A comment that the maintainer wrote."""
    document = comment_document(
        text, action, id=comment_id, user=MAINTAINER, author_association="MEMBER"
    )
    return {**document, "sender": sender}


@pytest.mark.guarantee("I6")
def test_the_authority_of_a_comment_is_its_senders(bots: Door) -> None:
    before = keys(bots)
    said = comment("looks odd", comment_id=1)
    assert post(bots, "issue_comment", said, "said") == (200, "no-command")
    forged = comment("/approve", "edited", comment_id=1, sender=CONTRIBUTOR)
    assert post(bots, "issue_comment", forged, "forged") == (200, "edited-by-another")
    assert keys(bots) == before
    meant = comment("/approve", "edited", comment_id=1)
    assert post(bots, "issue_comment", meant, "meant") == (202, "")
    assert keys(bots) == [*before, "1@pending:manual-1.approve"]
    created = comment("/approve", comment_id=2)
    assert post(bots, "issue_comment", created, "created") == (202, "")
    assert keys(bots)[len(before) + 1 :] == ["1@pending:manual-2.approve"]


@pytest.mark.guarantee("I6")
def test_one_command_runs_once_for_each_comment_however_it_is_edited(bots: Door) -> None:
    before = len(keys(bots))
    known = (200, "duplicate by key")
    for turn, (text, expected) in enumerate(
        [
            ("/approve", (202, "")),
            ("/approve now", known),
            ("thanks\n\n/approve", known),
            ("looks odd", (200, "no-command")),
            ("/approve", known),
            ("/review", (202, "")),
        ]
    ):
        edited = comment(text, "created" if turn == 0 else "edited", comment_id=3)
        assert post(bots, "issue_comment", edited, f"turn-{turn}") == expected
    deleted = comment("/approve", "deleted", comment_id=3)
    assert post(bots, "issue_comment", deleted, "deleted") == (200, "action-unwanted")
    assert keys(bots)[before:] == [f"1@pending:manual-3.{each}" for each in ("approve", "review")]


@pytest.mark.guarantee("I6")
def test_what_one_may_not_command_one_does_not_by_creating_either(bots: Door) -> None:
    before = keys(bots)
    stranger = comment("/approve", comment_id=4, sender=CONTRIBUTOR)
    stranger["comment"] |= {"user": CONTRIBUTOR, "author_association": "CONTRIBUTOR"}
    assert post(bots, "issue_comment", stranger, "stranger") == (200, "sender-untrusted")
    assert keys(bots) == before

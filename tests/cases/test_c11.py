"""The bot talks to itself, and two bots to each other: neither makes work.

That publications are known by their own ids, and that two others are stopped who alternate by
means that look like people's, is not ingress's part.
"""

from typing import Any

import pytest

from tests.cases.asking import MAINTAINER, OUR_ACCOUNT, OUR_APP, OUR_BOT, keys, post
from tests.services.ingress.published import check_document, comment_document
from tests.services.ingress.pulls import A, pull
from tests.services.ingress.webhooks.posting import Door, signed

ALTERNATIONS = 30


def reply(text: str, author: dict[str, Any], **changes: Any) -> dict[str, Any]:
    document = comment_document(text, user=author, author_association="MEMBER", **changes)
    return {**document, "sender": author}


@pytest.mark.guarantee("I8")
@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("app", reply("/review", OUR_BOT)),
        ("token", reply("/review", {**OUR_BOT, "type": "User"})),
        ("quoting", reply("@our-bot review\n> /review\n\nDone.", OUR_BOT)),
        ("for-a-person", reply("/review", MAINTAINER, performed_via_github_app={"id": OUR_APP})),
    ],
)
def test_our_own_reply_is_recorded_and_asks_for_nothing(
    bots: Door, name: str, document: dict[str, Any]
) -> None:
    before = keys(bots)
    assert post(bots, "issue_comment", document, name) == (200, "own-bot")
    assert keys(bots) == before


@pytest.mark.guarantee("I8", "I13")
def test_a_check_is_run_again_by_people_and_not_by_us(bots: Door) -> None:
    check = check_document("check_run", "rerequested", [2])
    check["check_run"]["app"] = {"id": OUR_APP, "slug": "our-bot"}
    before = len(keys(bots))
    ours = {**check, "sender": OUR_BOT}
    assert post(bots, "check_run", ours, "ours") == (200, "own-bot")
    assert len(keys(bots)) == before
    persons = {**check, "sender": MAINTAINER}
    assert post(bots, "check_run", persons, "persons") == (202, "")
    assert len(keys(bots)) == before + 1


@pytest.mark.guarantee("I8")
def test_what_we_pushed_ourselves_is_recorded_and_not_looked_at(bots: Door) -> None:
    before = keys(bots)
    body = pull(number=40, head_sha=A).replace(b'"id": 21031067', f'"id": {OUR_ACCOUNT}'.encode())
    answer = bots.post(body, signed(body, x_github_delivery="pushed"))
    assert (answer.status_code, answer.json()["reason"]) == (200, "own-bot")
    assert keys(bots) == before
    known = "SELECT head_sha FROM fencepost.change_requests WHERE number = 40"
    assert bots.owner.execute(known).fetchall() == [(A,)]


@pytest.mark.guarantee("I8")
def test_two_bots_that_answer_each_other_make_no_work(bots: Door) -> None:
    before = keys(bots)
    theirs = {"id": 777, "login": "their-bot[bot]", "type": "Bot"}
    for turn in range(ALTERNATIONS):
        author, reason = (theirs, "sender-is-bot") if turn % 2 else (OUR_BOT, "own-bot")
        said = reply("/review", author, id=1000 + turn)
        assert post(bots, "issue_comment", said, f"turn-{turn}") == (200, reason)
    assert keys(bots) == before

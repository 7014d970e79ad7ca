"""How a review is written for GitHub, judged by GitHub's published description."""

import json

import pytest
from fencepost.errors import FencepostError, FieldInvalid, ResourceNotFound
from opentelemetry.trace import NoOpTracer

from services.publisher.forges.access import Access
from services.publisher.forges.evidence import marker
from services.publisher.forges.github import BODY_LIMIT_CHARACTERS, GitHub
from services.publisher.forges.transport import Patience, Transport
from services.publisher.model import (
    ForgeKind,
    LineComment,
    Place,
    Refused,
    Review,
    Slot,
    Verdict,
)
from tests.published.github.validator import validate_request

HEAD = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
PLACE = Place(
    forge="github",
    forge_instance="github.com",
    repo_id=1296269,
    repo_name="Codertocat/Hello-World",
    number=2,
    head_sha=HEAD,
)
SLOT = Slot(key=f"github.com/1296269#2@{HEAD}", publication_id=41, attempt=1)
MARKER = marker(SLOT)
HEADERS = [
    ("authorization", "Bearer x"),
    ("user-agent", "fencepost"),
    ("content-type", "application/json"),
]
PATIENCE = Patience(
    connect_timeout_ms=1000,
    write_timeout_ms=1000,
    read_timeout_ms=1000,
    call_timeout_ms=2000,
    answer_limit_bytes=1024,
)


def github_with(token: str) -> GitHub:
    return GitHub(
        Transport(PATIENCE, NoOpTracer()),
        Access(
            forge=ForgeKind.GITHUB,
            instance="github.com",
            base_url="https://api.github.invalid",
            token=token,
        ),
        user_agent="fencepost",
        strict_uncertain=True,
    )


@pytest.fixture
def github() -> GitHub:
    return github_with("token")


def review(body: str = "Looks right.", *comments: LineComment) -> Review:
    return Review(verdict=Verdict.COMMENT, body=body, comments=comments)


@pytest.mark.guarantee("P7")
@pytest.mark.parametrize(
    ("verdict", "event"),
    [
        (Verdict.COMMENT, "COMMENT"),
        (Verdict.APPROVE, "APPROVE"),
        (Verdict.REQUEST_CHANGES, "REQUEST_CHANGES"),
    ],
)
def test_a_review_is_what_github_describes(github: GitHub, verdict: Verdict, event: str) -> None:
    comment = LineComment(path="src/ünï.py", line=3, body="Why?")
    given = Review(verdict=verdict, body="Looks right. 🌈", comments=(comment,))
    draft = github.review_draft(PLACE, given, SLOT)
    assert validate_request(draft.method, draft.path, HEADERS, draft.body) == []
    assert (draft.method, draft.path) == ("POST", "/repos/Codertocat/Hello-World/pulls/2/reviews")
    assert draft.evidence == MARKER
    assert json.loads(draft.body) == {
        "commit_id": HEAD,
        "body": f"{MARKER}\n\nLooks right. 🌈",
        "event": event,
        "comments": [{"path": "src/ünï.py", "line": 3, "side": "RIGHT", "body": "Why?"}],
    }


@pytest.mark.guarantee("P7")
def test_only_our_own_marker_stands_in_what_is_sent(github: GitHub) -> None:
    comment = LineComment(path="a.py", line=1, body=MARKER)
    draft = github.review_draft(PLACE, review(f"I say\n{MARKER}", comment), SLOT)
    sent = json.loads(draft.body)
    assert sent["body"].startswith(MARKER)
    assert sent["body"].count("<!--") == 1
    assert "<!--" not in sent["comments"][0]["body"]


def test_a_review_without_remarks_has_no_list_of_them(github: GitHub) -> None:
    assert "comments" not in json.loads(github.review_draft(PLACE, review(), SLOT).body)


@pytest.mark.parametrize(
    ("repo_name", "path"),
    [
        ("Größe-GmbH/ünï", "/repos/Gr%C3%B6%C3%9Fe-GmbH/%C3%BCn%C3%AF"),
        ("a b/c#4?x=1&y", "/repos/a%20b/c%234%3Fx%3D1%26y"),
        ("a%2Fb/c%20d", "/repos/a%252Fb/c%2520d"),
        ("..a/b..", "/repos/..a/b.."),
    ],
)
def test_names_are_encoded_once(github: GitHub, repo_name: str, path: str) -> None:
    place = Place(**{**vars(PLACE), "repo_name": repo_name})
    assert github.review_draft(place, review(), SLOT).path == f"{path}/pulls/2/reviews"


@pytest.mark.parametrize(
    "repo_name", ["", "a", "a/", "/b", "a/b/c", "../b", "a/..", "./b", "a/.", "../../b"]
)
def test_no_name_leads_out_of_its_repository(github: GitHub, repo_name: str) -> None:
    place = Place(**{**vars(PLACE), "repo_name": repo_name})
    with pytest.raises(ResourceNotFound, match="no repository"):
        github.review_draft(place, review(), SLOT)


@pytest.mark.parametrize("elsewhere", [{"forge": "gitlab"}, {"forge_instance": "ghe.example.com"}])
def test_work_of_another_forge_is_not_sent_to_this_one(
    github: GitHub, elsewhere: dict[str, str]
) -> None:
    place = Place(**{**vars(PLACE), **elsewhere})
    with pytest.raises(ResourceNotFound, match="no connection to git"):
        github.review_draft(place, review(), SLOT)


@pytest.mark.guarantee("X4")
def test_the_longest_body_leaves_room_for_the_marker(github: GitHub) -> None:
    room = BODY_LIMIT_CHARACTERS - len(MARKER) - 2
    draft = github.review_draft(PLACE, review("🌈" * room), SLOT)
    assert len(json.loads(draft.body)["body"]) == BODY_LIMIT_CHARACTERS
    with pytest.raises(FieldInvalid, match=f"body: must be at most {room} characters") as refused:
        github.review_draft(PLACE, review("🌈" * (room + 1)), SLOT)
    assert isinstance(refused.value, FencepostError)


async def test_without_a_token_nothing_is_sent_and_that_is_certain() -> None:
    github = github_with("")
    outcome = await github.send(github.review_draft(PLACE, review(), SLOT))
    assert isinstance(outcome, Refused)
    assert "PUBLISHER_FORGE_TOKEN" in outcome.detail

"""The forge answers as GitHub describes, refuses in GitHub's form, and stores before it answers."""

import hashlib

import httpx
import pytest
from gidgethub.httpx import GitHubAPI

from examples.scripted_forge.client import PullFixture, ScriptedForge
from tests.examples.judged import BASE, HEAD, NUMBER, JudgedRepo

BOT = "fencepost[bot]"


@pytest.mark.parametrize(
    ("event", "state"),
    [
        ("COMMENT", "COMMENTED"),
        ("APPROVE", "APPROVED"),
        ("REQUEST_CHANGES", "CHANGES_REQUESTED"),
    ],
)
def test_a_review_is_stored_as_the_bots_and_listed(
    repo: JudgedRepo, event: str, state: str
) -> None:
    created = repo.review("Looks right.", event).json()

    listed = repo.call("GET", f"{repo.pull}/reviews").json()

    assert listed == [created]
    assert (created["state"], created["body"], created["commit_id"]) == (
        state,
        "Looks right.",
        HEAD,
    )
    assert created["user"]["login"] == BOT
    assert created["user"]["type"] == "Bot"
    assert repo.misdescribed() == []


def test_a_review_without_an_event_is_pending_and_not_submitted(repo: JudgedRepo) -> None:
    comment = {"path": "README.md", "line": 3, "side": "RIGHT", "body": "A typo."}

    created = repo.call("POST", f"{repo.pull}/reviews", {"comments": [comment]}).json()

    assert (created["state"], created["body"], created["commit_id"]) == ("PENDING", "", HEAD)
    assert "submitted_at" not in created
    assert repo.call("GET", repo.pull).json()["review_comments"] == 1


def test_the_same_review_twice_is_two_reviews(repo: JudgedRepo) -> None:
    first, second = repo.review(), repo.review()

    assert first.json()["id"] != second.json()["id"]
    assert len(repo.posted()) == 2


def test_ids_are_as_large_as_githubs(repo: JudgedRepo) -> None:
    assert repo.review().json()["id"] > 2**31


def test_listings_are_paged_with_links_that_lead_through_all(repo: JudgedRepo) -> None:
    ids = [repo.review(f"Review {number}").json()["id"] for number in range(5)]
    found, path, relations = [], f"{repo.pull}/reviews?per_page=2", []

    while path:
        response = repo.call("GET", path)
        found.append([review["id"] for review in response.json()])
        relations.append(set(response.links))
        path = response.links.get("next", {}).get("url", "").removeprefix(repo.forge.url)

    assert found == [ids[0:2], ids[2:4], ids[4:5]]
    assert relations == [{"next", "last"}, {"prev", "next", "last", "first"}, {"prev", "first"}]
    assert repo.call("GET", f"{repo.pull}/reviews?per_page=5").links == {}
    assert repo.misdescribed() == []


def test_a_page_past_the_end_is_empty_and_oversized_pages_are_cut(repo: JudgedRepo) -> None:
    repo.review()

    assert repo.call("GET", f"{repo.pull}/reviews?page=9").json() == []
    assert len(repo.call("GET", f"{repo.pull}/reviews?per_page=5000").json()) == 1
    assert repo.misdescribed() == ['query: per_page is 5000 ("max 100")']


def test_comments_are_created_with_their_location_and_listed(repo: JudgedRepo) -> None:
    created = repo.call("POST", repo.comments, {"body": "Taken up."})

    assert created.status_code == 201
    assert created.headers["location"] == created.json()["url"]
    assert repo.call("GET", repo.comments).json() == [created.json()]
    assert repo.call("GET", f"{repo.comments}?since=2999-01-01T00:00:00Z").json() == []
    (comment,) = repo.forge.comments(repo.full_name, NUMBER)
    assert (comment.author, comment.body) == (BOT, "Taken up.")
    assert repo.misdescribed() == []


def test_a_pull_request_shows_its_head_and_what_was_said(repo: JudgedRepo) -> None:
    repo.call("POST", repo.comments, {"body": "Taken up."})

    pull = repo.call("GET", repo.pull.lower()).json()

    assert (pull["head"]["sha"], pull["base"]["sha"], pull["state"]) == (HEAD, BASE, "open")
    assert pull["base"]["repo"]["full_name"] == repo.full_name
    assert pull["comments"] == 1


def test_a_push_moves_the_head_and_keeps_earlier_commits_reviewable(repo: JudgedRepo) -> None:
    pushed = "a" * 40
    repo.forge.add_repo(repo.full_name, PullFixture(number=NUMBER, head_sha=pushed, state="closed"))

    pull = repo.call("GET", repo.pull).json()

    assert (pull["head"]["sha"], pull["state"], pull["commits"]) == (pushed, "closed", 2)
    assert pull["closed_at"] is not None
    assert repo.review().json()["commit_id"] == HEAD


def test_identity_is_the_apps_bot(repo: JudgedRepo) -> None:
    assert repo.call("GET", "/user").json()["login"] == BOT
    assert repo.call("GET", "/app").json()["slug"] == "fencepost"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/repos/Codertocat/Nowhere/pulls/2"),
        ("GET", "/repos/{repo}/pulls/3"),
        ("POST", "/repos/{repo}/pulls/two/reviews"),
        ("GET", "/repos/{repo}/pulls/99999999999999999999/reviews"),
        ("POST", "/repos/{repo}/issues/3/comments"),
        ("DELETE", "/repos/{repo}/pulls/2/reviews"),
        ("GET", "/repos/{repo}/pulls/2/reviews/"),
        ("GET", "/"),
    ],
)
def test_what_is_not_there_is_not_found(repo: JudgedRepo, method: str, path: str) -> None:
    body = {"body": "Hello"} if method == "POST" else None

    response = repo.call(method, path.format(repo=repo.full_name), body)

    assert (response.status_code, response.json()["message"]) == (404, "Not Found")


@pytest.mark.parametrize(
    ("authorization", "message"),
    [
        ("", "Requires authentication"),
        ("Basic Zm9yZ2U6", "Requires authentication"),
        ("Bearer", "Requires authentication"),
        ("Bearer not-the-token", "Bad credentials"),
        ("token not-the-token", "Bad credentials"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_strangers_are_refused_and_logged(
    repo: JudgedRepo, method: str, authorization: str, message: str
) -> None:
    body = {"body": "Hello", "event": "COMMENT"} if method == "POST" else None

    response = repo.call(method, f"{repo.pull}/reviews", body, authorization=authorization)

    assert (response.status_code, response.json()["message"]) == (401, message)
    assert [one.answered_status for one in repo.logged()] == [401]
    assert repo.posted() == []


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_the_script_too_needs_the_token(forge: ScriptedForge, method: str) -> None:
    response = httpx.request(method, f"{forge.url}/_script/faults", trust_env=False)

    assert response.status_code == 401


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{not json", 400, "Problems parsing JSON"),
        (b"\xff", 400, "Problems parsing JSON"),
        ([1], 400, "should be a JSON object"),
        ({"event": "COMMENT"}, 422, "cannot be blank"),
        ({"event": "REQUEST_CHANGES", "body": " "}, 422, "cannot be blank"),
        ({"event": "DISMISS", "body": "No"}, 422, "DISMISS"),
        ({"event": 7, "body": "No"}, 422, "properties/event"),
        ({"event": "COMMENT", "body": ["No"]}, 422, "properties/body"),
        ({"event": "COMMENT", "body": "x" * 65_537}, 422, "too long"),
        ({"event": "COMMENT", "body": "No", "commit_id": "HEAD"}, 422, "commitOID"),
        ({"event": "COMMENT", "body": "No", "commit_id": "b" * 40}, 422, "not part of"),
        ({"event": "COMMENT", "body": "No", "comments": {}}, 422, "properties/comments"),
        ({"event": "COMMENT", "body": "No", "comments": [1]}, 422, "properties/comments"),
        ({"event": "COMMENT", "body": "No", "comments": [{"path": "a"}]}, 422, '"body"'),
        ({"comments": [{"path": "a", "body": "b", "line": "3"}]}, 422, "properties/line"),
    ],
)
def test_an_invalid_review_is_refused_and_not_stored(
    repo: JudgedRepo, body: object, status: int, words: str
) -> None:
    response = repo.call("POST", f"{repo.pull}/reviews", body)

    assert response.status_code == status
    assert words in response.json()["message"] + str(response.json().get("errors"))
    assert repo.posted() == []


@pytest.mark.parametrize(
    "body", [{}, b"", {"body": ""}, {"body": None}, {"body": 1}, {"body": "x" * 65_537}]
)
def test_an_invalid_comment_is_refused_and_not_stored(repo: JudgedRepo, body: object) -> None:
    assert repo.call("POST", repo.comments, body).status_code == 422
    assert repo.forge.comments(repo.full_name, NUMBER) == []


def test_requests_are_logged_raw_with_the_credential_as_a_digest(repo: JudgedRepo) -> None:
    body = '{ "event": "COMMENT",\n "body": "näïve 🚀" }'.encode()
    repo.call("POST", f"{repo.pull}/reviews?odd=%2F+1", body, **{"x-Odd": "yes"})

    (one,) = repo.logged()

    digest = hashlib.sha256(f"Bearer {repo.forge.token}".encode()).hexdigest()
    assert (one.method, one.raw_path) == ("POST", f"{repo.pull}/reviews?odd=%2F+1")
    assert (one.body, one.answered_status, one.fault) == (body, 200, None)
    assert ("authorization", f"sha256:{digest}") in one.headers
    assert ("x-odd", "yes") in one.headers
    assert repo.forge.token not in repr(one)


def test_the_log_is_read_from_a_number_on(repo: JudgedRepo) -> None:
    repo.review()
    seen = repo.logged()[-1].number
    repo.review()

    assert [one.number for one in repo.forge.requests(after=seen, method="POST")] == [
        one.number for one in repo.logged("POST") if one.number > seen
    ]


async def test_a_well_kept_client_of_github_finds_its_way(repo: JudgedRepo) -> None:
    async with httpx.AsyncClient(base_url=repo.forge.url, trust_env=False) as http:
        client = GitHubAPI(http, "tests", oauth_token=repo.forge.token, base_url=repo.forge.url)
        for number in range(3):
            content = {"event": "COMMENT", "body": f"Review {number}"}
            await client.post(f"{repo.pull}/reviews", data=content)
        listed = client.getiter(f"{repo.pull}/reviews?per_page=1")
        bodies = [review["body"] async for review in listed]

    assert bodies == ["Review 0", "Review 1", "Review 2"]
    assert repo.misdescribed() == []

"""Heads of change requests, read from all four kinds of forge and from all that may go wrong."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from examples.scripted_forge.client import LoggedRequest, ScriptedForge
from services.publisher.heads.model import Asked, Gone, Head, Unknown
from services.publisher.model import ForgeKind
from shared.embedded.server import free_port
from shared.schema.states import ChangeRequestState
from tests.published.github.validator import validate_request
from tests.services.publisher.forges.heads import HEAD, NUMBER, Asking, made, name_of

JSON = {"content-type": "application/json"}
OTHER_HEAD = "f95f852bd8fca8fcc58a9a2d6c842781e32a215e"
FORMS = {
    ForgeKind.GITHUB: {"message": "No", "documentation_url": "https://docs.github.com/rest"},
    ForgeKind.GITLAB: {"message": "404 Project Not Found"},
    ForgeKind.GITEA: {"message": "No", "url": "https://gitea.test/api/swagger"},
    ForgeKind.FORGEJO: {"message": "No", "url": "https://forgejo.test/api/swagger"},
}

_repo_ids = itertools.count(4_000_000_001)


@pytest.fixture(params=list(ForgeKind))
def asking(request: pytest.FixtureRequest, forge: ScriptedForge) -> Iterator[Asking]:
    """One kind of forge with one open change request, and no fault left over."""
    asked = Asked(repo_id=next(_repo_ids), number=NUMBER)
    made(forge, name_of(asked), asked.repo_id)
    yield Asking(request.param, forge, asked)
    forge.clear_faults()


def faulty(asking: Asking, kind: str = "status", **how: object) -> None:
    """Lets the next read of the change request itself go wrong."""
    pulls = rf"/(pulls|merge_requests)/{NUMBER}$"
    asking.forge.fault(kind, method="GET", path_regex=pulls, **how)  # type: ignore[arg-type] # as the caller says


@pytest.mark.guarantee("I7")
async def test_a_head_is_found_with_all_that_the_forge_says_of_it(asking: Asking) -> None:
    head = await asking.head()
    assert isinstance(head, Head)
    assert head.updated_at is not None
    assert head.updated_at.tzinfo is not None
    assert replace(head, updated_at=None) == asking.expected(name_of(asking.asked))


@pytest.mark.guarantee("I7")
async def test_a_push_a_close_and_a_draft_are_told(asking: Asking) -> None:
    asked = asking.asked
    changes = {"head_sha": OTHER_HEAD, "state": "closed", "base_ref": "next", "draft": True}
    made(asking.forge, name_of(asked), asked.repo_id, **changes)
    head = await asking.head()
    assert isinstance(head, Head)
    assert (head.head_sha, head.base_ref, head.draft) == (OTHER_HEAD, "next", True)
    assert head.state is ChangeRequestState.CLOSED


@pytest.mark.guarantee("I7")
async def test_a_renamed_repository_is_found_and_its_old_names_new_owner_is_not(
    asking: Asking,
) -> None:
    old, new = name_of(asking.asked), f"Someone/Else-{asking.asked.repo_id}"
    asking.forge.rename_repo(old, new)
    made(asking.forge, old, next(_repo_ids), head_sha=OTHER_HEAD)
    head = await asking.head()
    assert isinstance(head, Head)
    assert (head.repo_name, head.head_sha) == (new, HEAD)


@pytest.mark.guarantee("I7")
@pytest.mark.parametrize("missing", [{"repo_id": 999}, {"number": 999}])
async def test_what_the_forge_denies_in_its_own_form_is_gone(
    asking: Asking, missing: dict[str, int]
) -> None:
    answer = await replace(asking, asked=replace(asking.asked, **missing)).head()
    assert isinstance(answer, Gone)
    assert "the forge knows no" in answer.why


@pytest.mark.guarantee("I7")
@pytest.mark.parametrize(
    ("body", "kind"),
    [("<html>no such page</html>", "text/html"), ("{}", "application/json"), ("", "text/html")],
)
async def test_a_404_of_anybody_else_is_not_the_forges_word(
    asking: Asking, body: str, kind: str
) -> None:
    faulty(asking, status=404, body=body, headers={"content-type": kind})
    assert isinstance(await asking.head(), Unknown)


@pytest.mark.guarantee("I7")
@pytest.mark.parametrize("other", list(ForgeKind))
async def test_a_404_in_another_forges_form_is_not_this_forges_word(
    asking: Asking, other: ForgeKind
) -> None:
    faulty(asking, status=404, body=json.dumps(FORMS[other]))
    expected = Gone if FORMS[other].keys() == FORMS[asking.kind].keys() else Unknown
    assert isinstance(await asking.head(), expected)


@pytest.mark.guarantee("I7")
async def test_an_address_without_such_an_api_does_not_make_everything_gone(
    asking: Asking,
) -> None:
    faulty(asking, status=404, body=json.dumps({"error": "404 Not Found"}))
    assert isinstance(await asking.head(), Unknown)


@pytest.mark.guarantee("I7")
@pytest.mark.parametrize("status", [401, 403, 410, 429, 500])
async def test_any_other_refusal_leaves_it_unknown(asking: Asking, status: int) -> None:
    faulty(asking, status=status, body=json.dumps(FORMS[asking.kind]), times=9)
    answer = await asking.head()
    assert isinstance(answer, Unknown)
    assert f"status {status}" in answer.why


@pytest.mark.guarantee("I7")
@pytest.mark.parametrize(
    ("given", "retry_after_ms"), [("7", 7_000), ("99999999", 86_400_000), ("soon", None)]
)
async def test_when_to_ask_again_is_what_the_forge_says(
    asking: Asking, given: str, retry_after_ms: int | None
) -> None:
    faulty(asking, status=503, headers={"retry-after": given}, times=9)
    answer = await asking.head()
    assert isinstance(answer, Unknown)
    assert answer.retry_after_ms == retry_after_ms
    assert len(asking.forge.requests(method="GET")) > 0
    assert asking.forge.pending_faults() == 8, "a wait that the forge names is not ours to shorten"


@pytest.mark.guarantee("I7")
@pytest.mark.parametrize("kind", ["reset_before_store", "store_then_502"])
async def test_a_failure_that_passes_is_got_over(asking: Asking, kind: str) -> None:
    faulty(asking, kind, times=2)
    assert isinstance(await asking.head(attempts_max=3), Head)
    assert asking.forge.pending_faults() == 0


@pytest.mark.guarantee("I7")
async def test_a_failure_that_stays_is_given_up_after_a_set_number_of_tries(
    asking: Asking,
) -> None:
    faulty(asking, "reset_before_store", times=9)
    assert isinstance(await asking.head(attempts_max=2), Unknown)
    assert asking.forge.pending_faults() == 7


@pytest.mark.guarantee("I7")
async def test_a_forge_that_is_away_or_silent_leaves_it_unknown(asking: Asking) -> None:
    faulty(asking, "slow_answer", delay_ms=1000)
    assert isinstance(await asking.head(timeout_ms=100), Unknown)
    away = ScriptedForge(f"http://127.0.0.1:{free_port()}", "token")
    assert isinstance(await replace(asking, forge=away).head(), Unknown)
    away.stop()


@pytest.mark.guarantee("I7")
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"number": 8, "iid": 8},
        {"base": {"repo": {"id": 1}}, "project_id": 1},
        {"head": {"sha": "ec26c3e"}, "sha": "ec26c3e"},
        {"head": None, "sha": None},
        {"state": "unheard-of"},
        {"html_url": "javascript:alert(1)", "web_url": "javascript:alert(1)"},
        {"html_url": None, "web_url": None},
        {"base": {"ref": "a\x00b"}, "target_branch": "a\x00b"},
    ],
)
async def test_an_answer_that_lacks_something_or_is_of_something_else_is_unknown(
    asking: Asking, wrong: dict[str, object]
) -> None:
    faulty(asking, status=200, body=json.dumps(answer_with(asking, wrong) if wrong else {}))
    assert isinstance(await asking.head(), Unknown)


async def test_the_unspoilt_answer_of_that_table_is_a_head(asking: Asking) -> None:
    faulty(asking, status=200, body=json.dumps(answer_with(asking, {})))
    assert isinstance(await asking.head(), Head)


@pytest.mark.guarantee("I7")
@pytest.mark.parametrize("body", ["[]", "{", "<html></html>", "[" * 100_000])
async def test_an_answer_that_is_no_object_is_unknown(asking: Asking, body: str) -> None:
    faulty(asking, status=200, body=body)
    assert isinstance(await asking.head(), Unknown)


@pytest.mark.guarantee("K2")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_followed_on_the_same_host(asking: Asking, status: int) -> None:
    target = asking.reads_path()
    faulty(asking, status=status, headers={"location": target})
    assert isinstance(await asking.head(), Head)


@pytest.mark.guarantee("K2")
async def test_a_redirect_in_a_circle_ends(asking: Asking) -> None:
    circle = {"location": asking.reads_path() + "?again"}
    asking.forge.fault("status", method="GET", path_regex="", status=302, headers=circle, times=90)
    before = len(asking.forge.requests(method="GET"))
    assert isinstance(await asking.head(), Unknown)
    assert len(asking.forge.requests(method="GET")) - before <= 4


@pytest.mark.guarantee("K2")
async def test_the_token_goes_to_no_other_host(
    asking: Asking, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with ScriptedForge.start(tmp_path_factory.mktemp("elsewhere"), token=asking.forge.token) as far:
        made(far, name_of(asking.asked), asking.asked.repo_id)
        faulty(asking, status=302, headers={"location": far.url + asking.reads_path()})
        answer = await asking.head()
        assert isinstance(answer, Unknown)
        assert far.requests() == []


@pytest.mark.guarantee("K2")
async def test_a_forge_that_echoes_the_token_puts_it_into_no_answer(asking: Asking) -> None:
    token = asking.forge.token
    spoilt = answer_with(asking, {"base": {"ref": token}, "target_branch": token})
    faulty(asking, status=200, body=json.dumps(spoilt))
    head = await asking.head()
    assert isinstance(head, Head)
    assert head.base_ref == "[token]"


@pytest.mark.guarantee("I7")
async def test_github_is_asked_as_it_describes(forge: ScriptedForge) -> None:
    asked = Asked(repo_id=next(_repo_ids), number=NUMBER)
    made(forge, name_of(asked), asked.repo_id)
    asking = Asking(ForgeKind.GITHUB, forge, asked)
    assert isinstance(await asking.head(), Head)
    repo, pull = requests_of(asking)
    # The description knows repositories by name alone, though GitHub's own redirects lead to ids.
    assert repo.raw_path == f"/repositories/{asked.repo_id}"
    assert pull.raw_path == f"/repos/{name_of(asked)}/pulls/{NUMBER}"
    for one in (repo, pull):
        assert validate_request("GET", pull.raw_path, one.headers, one.body) == []


def requests_of(asking: Asking) -> list[LoggedRequest]:
    """What the forge was asked about this repository."""
    repo_id = str(asking.asked.repo_id)
    return [one for one in asking.forge.requests(method="GET") if repo_id in one.raw_path]


def answer_with(asking: Asking, changes: dict[str, object]) -> dict[str, object]:
    """What the forge would say, with some of it changed; one level down in objects."""
    asked = asking.asked
    answer: dict[str, object] = {
        "number": NUMBER,
        "iid": NUMBER,
        "project_id": asked.repo_id,
        "state": "opened" if asking.kind is ForgeKind.GITLAB else "open",
        "sha": HEAD,
        "head": {"sha": HEAD},
        "base": {"ref": "master", "repo": {"id": asked.repo_id, "full_name": name_of(asked)}},
        "target_branch": "master",
        "references": {"full": f"{name_of(asked)}!{NUMBER}"},
        "html_url": "https://forge.test/pull",
        "web_url": "https://forge.test/pull",
    }
    for name, change in changes.items():
        old = answer[name]
        both = isinstance(old, dict) and isinstance(change, dict)
        answer[name] = old | change if both else change  # type: ignore[operator] # two objects
    return answer

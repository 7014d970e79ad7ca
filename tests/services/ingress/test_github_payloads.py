"""Every payload that GitHub's events are published with is read, and its answer is recorded."""

import hashlib
import json
import lzma
import re
from collections import Counter

import pytest

from services.ingress.body_rules import JSON, MalformedError, read_document
from services.ingress.github_rules import TRANSITIONS, read
from services.ingress.rules import IGNORED_REASONS, IgnoredReason
from tools.docs.github_events import ARCHIVE, Answer, Example, answer, examples, page

EXAMPLES = examples()
NUMBERED = [pytest.param(example, id=f"{example.event}-{n}") for n, example in enumerate(EXAMPLES)]
PAGE = page()
WANTED = {
    "check_run",
    "check_suite",
    "issue_comment",
    "merge_group",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
}
"""Events whose fields are held to what they must be."""


def page_of(event: str) -> list[str]:
    """The lines of one event on the page."""
    rows = re.split(r"^\| `", PAGE, flags=re.MULTILINE)[1:]
    [found] = [row for row in rows if row.startswith(f"{event}`")]
    return f"| `{found}".splitlines()


def of_event(event: str) -> Counter[tuple[str, str]]:
    found = [answer(example) for example in EXAMPLES if example.event == event]
    return Counter((each.action, each.reason or each.asks) for each in found)


def test_the_payloads_are_the_published_ones() -> None:
    unpacked = lzma.decompress(ARCHIVE.read_bytes())
    notice = (ARCHIVE.parent / "NOTICE").read_text(encoding="utf-8")
    assert re.search(rf"\b{hashlib.sha256(unpacked).hexdigest()}\b", notice)
    assert (len(EXAMPLES), len({each.event for each in EXAMPLES})) == (329, 58)


@pytest.mark.guarantee("I8", "I10")
@pytest.mark.parametrize("example", NUMBERED)
def test_every_payload_has_the_answer_that_the_page_records(example: Example) -> None:
    found = answer(example)
    document = json.loads(example.body)
    assert found.action == (document.get("action") or "")
    assert found.reason == "" or found.reason in IGNORED_REASONS
    cells = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in page_of(found.event)
    ]
    becomes = f"ignored: `{found.reason}" if found.reason else "**work**"
    assert [found.action or "none", becomes] in [[action, what] for _, action, _, what, _ in cells]


def test_the_page_counts_every_payload_once() -> None:
    counts = re.findall(r"^\|[^|]*\|[^|]*\| (\d+) \|", PAGE, re.MULTILINE)
    assert sum(map(int, counts)) == 329


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("example", NUMBERED)
def test_a_payload_without_anything_that_matters_is_never_an_accident(example: Example) -> None:
    """Each top-level field in turn is null: read, or refused by the field's name."""
    document = json.loads(example.body)
    refused = {name: refused_field(example.event, {**document, name: None}) for name in document}
    named = {name: field.split(".")[0] for name, field in refused.items() if field}
    assert all(name == field for name, field in named.items()), refused
    assert not named or example.event in WANTED


def refused_field(event: str, document: dict[str, object]) -> str:
    """The field that a body is refused for; empty when it is read."""
    try:
        read(event, read_document(json.dumps(document).encode(), JSON))
    except MalformedError as malformed:
        return malformed.field
    return ""


def test_pull_requests_make_work_unless_they_are_drafts_or_closed() -> None:
    found = of_event("pull_request")
    assert {action for action, reason in found if not reason} <= set(TRANSITIONS)
    assert found["closed", "closed"] > 0
    assert found["review_requested", "review-of-another"] == 1
    reasons = {"", "closed", "draft", "action-unwanted", "review-of-another"}
    assert {reason for _, reason in found} <= reasons


@pytest.mark.guarantee("I8")
def test_what_has_nothing_to_look_at_is_ignored_with_its_own_reason() -> None:
    assert of_event("push") == {("", "ref-deleted"): 4, ("", "event-unwanted"): 3}
    assert set(of_event("delete")) == {("", "ref-deleted")}
    assert of_event("ping") == {("", "ping"): 4}
    assert {reason for _, reason in of_event("installation")} == {IgnoredReason.EVENT_UNWANTED}


@pytest.mark.guarantee("I6", "I8")
def test_comments_on_issues_and_without_a_command_make_no_work() -> None:
    assert of_event("issue_comment") == {
        ("created", "no-change-request"): 5,
        ("edited", "no-change-request"): 2,
        ("deleted", "action-unwanted"): 2,
    }
    assert of_event("pull_request_review_comment") == {
        ("created", "no-command"): 3,
        ("edited", "no-command"): 1,
        ("deleted", "action-unwanted"): 1,
    }
    assert of_event("pull_request_review") == {
        ("submitted", "no-command"): 3,
        ("dismissed", "action-unwanted"): 1,
    }


@pytest.mark.guarantee("I13")
def test_checks_make_work_where_a_person_or_a_new_commit_wants_them() -> None:
    assert of_event("check_run") == {
        ("created", "action-unwanted"): 3,
        ("completed", "action-unwanted"): 3,
        ("requested_action", "rerun"): 1,
        ("rerequested", "rerun"): 2,
    }
    assert of_event("check_suite") == {
        ("completed", "action-unwanted"): 4,
        ("requested", "checks"): 3,
        ("rerequested", "sender-is-bot"): 2,
    }
    assert of_event("merge_group") == {("checks_requested", "merge-group"): 2}


def test_only_pull_requests_and_their_checks_make_work() -> None:
    found: set[Answer] = {answer(example) for example in EXAMPLES}
    working = {each.event for each in found if not each.reason}
    assert working == {"pull_request", "check_run", "check_suite", "merge_group"}

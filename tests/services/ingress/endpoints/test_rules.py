"""What may be declared, and what a change amounts to."""

from dataclasses import replace
from typing import Any

import pytest

from services.ingress.endpoints import rules
from services.ingress.endpoints.model import DraftPolicy, ForgeKind, Proof, Route
from services.ingress.endpoints.rules import Change
from tests.services.ingress.endpoints.office import DECLARED, LIMIT_BYTES, declared

GITLAB: dict[str, Any] = {"forge": ForgeKind.GITLAB, "forge_instance": "gitlab.com"}
REVIEW, FIX = Route(action="review", queue="reviews"), Route(action="fix", queue="fixes")


def of_repos(route: Route, *repo_ids: int) -> Route:
    return replace(route, repo_ids=frozenset(repo_ids))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        GITLAB | {"proof": Proof.TOKEN},
        {"forge_instance": "github.example.org"},
        {"routes": (REVIEW, FIX)},
        {"routes": (of_repos(REVIEW, 1), of_repos(REVIEW, 2))},
        {"body_limit_bytes": LIMIT_BYTES},
        {"bot_ids": frozenset({7}), "trusted_ids": frozenset({9})},
    ],
)
def test_what_may_be_declared(changes: dict[str, Any]) -> None:
    assert rules.problems(declared(**changes), limit_bytes=LIMIT_BYTES) == []


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"proof": Proof.TOKEN}, "endpoint.proof", "gitlab alone"),
        ({"forge": ForgeKind.GITEA}, "endpoint.forge_instance", "host of your gitea"),
        ({"body_limit_bytes": LIMIT_BYTES + 1}, "endpoint.body_limit_bytes", str(LIMIT_BYTES)),
        ({"bot_ids": {7, 8}, "trusted_ids": {8, 9}}, "endpoint.trusted_ids", "not name 8,"),
        ({"routes": (REVIEW, FIX, REVIEW)}, "endpoint.routes[2].action", "review"),
        ({"routes": (REVIEW, of_repos(REVIEW, 1))}, "endpoint.routes[1].action", "same repo"),
        (
            {"routes": (of_repos(REVIEW, 1, 2), of_repos(REVIEW, 2, 3))},
            "endpoint.routes[1].action",
            "same repo",
        ),
    ],
)
def test_what_may_not_is_told_with_its_field(
    changes: dict[str, Any], field: str, sentence: str
) -> None:
    [(named, said)] = rules.problems(declared(**changes), limit_bytes=LIMIT_BYTES)
    assert named == field
    assert sentence in said


def test_forge_and_instance_stay() -> None:
    changed = declared(forge=ForgeKind.GITEA, forge_instance="code.example.org")
    assert [field for field, _ in rules.change_problems(DECLARED, changed)] == [
        "endpoint.forge",
        "endpoint.forge_instance",
    ]
    assert list(rules.change_problems(DECLARED, declared(drafts=DraftPolicy.TAKE))) == []


def test_a_new_endpoint_differs_in_every_field_that_it_sets() -> None:
    assert rules.changes(None, DECLARED) == [
        Change(field="name", before="", after="main"),
        Change(field="forge", before="", after="github"),
        Change(field="forge_instance", before="", after="github.com"),
        Change(field="proof", before="", after="signature"),
        Change(field="routes[0].action", before="", after="review"),
        Change(field="routes[0].queue", before="", after="reviews"),
        Change(field="routes[0].checks", before="", after="false"),
        Change(field="drafts", before="", after="ignore"),
        Change(field="body_limit_bytes", before="", after="0"),
    ]


def test_a_change_names_what_differs_and_what_is_gone() -> None:
    before = declared(routes=(REVIEW, of_repos(FIX, 10, 9)), bot_ids=frozenset({7}))
    after = declared(
        routes=(replace(REVIEW, queue="slow", commands=frozenset({"review"})),),
        wanted_events=frozenset({"push", "pull_request"}),
    )
    assert rules.changes(before, after) == [
        Change(field="routes[0].queue", before="reviews", after="slow"),
        Change(field="routes[0].commands", before="", after="review"),
        Change(field="wanted_events", before="", after="pull_request, push"),
        Change(field="routes[1].action", before="fix", after=""),
        Change(field="routes[1].queue", before="fixes", after=""),
        Change(field="routes[1].repo_ids", before="9, 10", after=""),
        Change(field="routes[1].checks", before="false", after=""),
        Change(field="bot_ids", before="7", after=""),
    ]
    assert rules.changes(before, before) == []


def test_routes_come_back_as_they_were_stored() -> None:
    routes = (
        REVIEW,
        Route(
            action="a:b",
            queue="q",
            repo_ids=frozenset({2**53 + 1, 1}),
            commands=frozenset({"x", "y"}),
            checks=True,
        ),
    )
    assert rules.routes_in(rules.routes_text(routes)) == routes


@pytest.mark.parametrize("tenant", ["", "a b", "-a", "a/b", "a" * 101, "ä"])
def test_a_tenant_that_fits_no_address_is_refused(tenant: str) -> None:
    assert rules.tenant_problem(tenant)
    assert rules.tenant_problem("Acme.2_x-y") is None


@pytest.mark.parametrize("token", ["ä", "====", "YWJj", "AAAgYQ=="])
def test_a_page_token_that_was_never_given_out_is_none(token: str) -> None:
    assert rules.page_position(token) is None
    assert rules.page_position(rules.page_token("acme", "main")) == ("acme", "main")

"""What a key may be given, and page tokens, by tables."""

import base64
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.watchdog.access.rules import (
    life_ms,
    life_problem,
    missing_scope,
    page_position,
    page_token,
    request_digest,
    tenant_problem,
    useless_without_a_tenant,
)

DAY_MS = 24 * 60 * 60 * 1000
NOON = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given_scopes", "own", "missing"),
    [
        ((), (), None),
        (("work",), ("work",), None),
        (("work",), ("work", "publish"), None),
        (("work",), (), "work"),
        (("work", "publish"), ("work",), "publish"),
        (("of_a_later_version",), ("work", "publish", "operate"), "of_a_later_version"),
    ],
)
def test_a_scope_that_the_giver_lacks_is_found(
    given_scopes: tuple[str, ...], own: tuple[str, ...], missing: str | None
) -> None:
    assert missing_scope(given_scopes, own) == missing


@pytest.mark.parametrize(
    ("valid_for_ms", "problem"),
    [
        (0, "at least 1 s"),
        (999, "at least 1 s"),
        (1000, None),
        (36_500 * DAY_MS, None),
        (36_500 * DAY_MS + 1, "at most 36500 days"),
    ],
)
def test_a_life_has_bounds(valid_for_ms: int, problem: str | None) -> None:
    found = life_problem(valid_for_ms)
    assert found is None if problem is None else problem in str(found)


@pytest.mark.parametrize("tenant", ["acme", "A.b_c-9", "x", "x" * 100])
def test_a_tenant_may_be_named_so(tenant: str) -> None:
    assert tenant_problem(tenant) is None


@pytest.mark.parametrize("tenant", ["*", "", " acme", "acme\n", "-acme", "ä", "x" * 101])
def test_a_tenant_may_not_be_named_so(tenant: str) -> None:
    assert tenant_problem(tenant)


def test_a_life_is_what_lies_between_making_and_end() -> None:
    assert life_ms(NOON, None) is None
    assert life_ms(NOON, NOON + timedelta(days=90)) == 90 * DAY_MS


def test_digests_tell_requests_apart() -> None:
    requests = [("a", ["b"], None), ("a", ["b"], 1), ("a", ["b", "c"], None), ("ab", [], None)]
    assert len({request_digest(*request) for request in requests}) == len(requests)
    assert request_digest("a", ["b"], 1) == request_digest("a", ("b",), 1)


@given(
    st.integers(-(10**15), 10**16),
    st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=40),
)
def test_a_page_token_leads_back_to_its_position(microseconds: int, key_id: str) -> None:
    created_at = NOON + timedelta(microseconds=microseconds)
    token = page_token(created_at, key_id)
    assert page_position(token) == (created_at, key_id)
    assert len(token) <= 200


def _encoded(position: str) -> str:
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def test_a_page_token_does_not_depend_on_the_time_zone() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5)))
    assert page_token(elsewhere, "k") == page_token(NOON, "k")


@pytest.mark.parametrize(
    "token",
    [
        *("x", "????", "MTIz", "ä", "YWJjIGs", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5IGs", "a b"),
        *(_encoded("1_0 k"), _encoded("+1 k"), _encoded("01 k"), _encoded("1 k\0")),
    ],
)
def test_a_token_that_was_never_given_out_is_none(token: str) -> None:
    assert page_position(token) is None


@pytest.mark.parametrize("scopes", [("work",), ("status_read", "publish"), ("publish", "work")])
def test_a_bots_key_needs_a_tenant(scopes: tuple[str, ...]) -> None:
    problem = useless_without_a_tenant(scopes)
    assert problem is not None
    assert problem.endswith("name the tenant of the new key")


@pytest.mark.parametrize("scopes", [("wake",), ("work", "operate"), ("status_read",)])
def test_other_keys_need_none(scopes: tuple[str, ...]) -> None:
    assert useless_without_a_tenant(scopes) is None

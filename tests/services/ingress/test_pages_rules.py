"""A page's token: what was given out leads back, and nothing else is read."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingress.pages_rules import page_position, page_token

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@given(st.integers(-(10**15), 10**16), st.integers(1, 2**63 - 1))
def test_a_token_leads_back_to_its_position(microseconds: int, delivery_seq: int) -> None:
    received_at = NOON + timedelta(microseconds=microseconds)
    assert page_position(page_token(received_at, delivery_seq)) == (received_at, delivery_seq)


@pytest.mark.parametrize(
    "position",
    [
        *("1_0 1", "+1 1", "1 +1", "01 1", "1 1_0", "1  1", "1 1 ", " 1 1", "1", "1 1 1", ""),
        *("1 0", "1 -1", f"1 {2**63}", "-62135596800000000 1", "-1 1", f"{10**18} 1", "1 a\0"),
    ],
)
def test_what_was_never_given_out_is_none(position: str) -> None:
    assert page_position(base64.urlsafe_b64encode(position.encode()).decode()) is None


@pytest.mark.parametrize("token", ["x", "????", "ä", "MSAx====", "MSAx\n", "MTAgMR=="])
def test_what_is_not_so_encoded_is_none(token: str) -> None:
    assert page_position(token) is None

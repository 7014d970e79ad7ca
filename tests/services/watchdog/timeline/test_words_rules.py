"""Times, lengths and ids as people read them."""

from datetime import timedelta

import pytest

from services.watchdog.timeline.words_rules import (
    because,
    count,
    distance,
    ids,
    length,
    moment,
    size,
    trace_id,
)
from tests.services.watchdog.timeline.facts import NOON, TRACE, TRACEPARENT, at


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (3 * 3600 + 1800, "3 h"),
        (47.9 * 3600, "47 h"),
        (48 * 3600, "2 d"),
        (400 * 86_400, "400 d"),
    ],
)
def test_a_length_has_one_unit(seconds: float, words: str) -> None:
    assert length(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-90, "1 min ago"), (-1, "1 s ago"), (-0.4, "now"), (0.9, "now"), (20, "in 20 s")],
)
def test_a_distance_has_a_direction(seconds: float, words: str) -> None:
    assert distance(at(seconds), NOON) == words


def test_a_moment_has_its_day_unless_it_is_today() -> None:
    assert moment(at(-3 * 3600), NOON) == "09:00:00 UTC (3 h ago)"
    assert moment(NOON - timedelta(days=3), NOON) == "2026-05-01 12:00:00 UTC (3 d ago)"


@pytest.mark.parametrize(
    ("size_bytes", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (9_999, "9,999 bytes"),
        (10_000, "10 KiB"),
        (5 * 1024 * 1024, "5,120 KiB"),
        (25 * 1024 * 1024, "25 MiB"),
    ],
)
def test_a_size_is_short(size_bytes: int, words: str) -> None:
    assert size(size_bytes) == words


def test_nouns_follow_their_number() -> None:
    assert [count(number, "span") for number in (0, 1, 2)] == ["0 spans", "1 span", "2 spans"]


@pytest.mark.parametrize(
    ("reason", "end"), [("", "."), ("it broke", ": it broke."), ("It broke. ", ": It broke.")]
)
def test_a_reason_ends_the_sentence_once(reason: str, end: str) -> None:
    assert because(reason) == end


def test_ids_leave_out_what_there_is_none_of() -> None:
    assert ids(intent_id=12, settled_by=None, reason="", epoch=0) == {
        "intent_id": "12",
        "epoch": "0",
    }


@pytest.mark.parametrize(
    ("traceparent", "trace"),
    [
        (TRACEPARENT, TRACE),
        (f"{TRACEPARENT}-more", TRACE),
        (f"00-{TRACE}-b7ad6b7169203331-03", TRACE),
        (f"00-{TRACE}-b7ad6b7169203331-00", ""),
        (f"00-{TRACE}-b7ad6b7169203331-zz", ""),
        ("", ""),
        ("00-short-1-01", ""),
    ],
)
def test_a_sampled_trace_is_read_from_its_context(traceparent: str, trace: str) -> None:
    assert trace_id(traceparent) == trace

"""The measurements measure the work, in turns, and say what is missed."""

import json
import re
from functools import partial
from itertools import islice

import pytest

from bench.payloads import deliveries, large
from bench.peer_runs import NODE_PEERS, PEERS, PYTHON_OF_PEERS
from bench.results import Results
from bench.rounds import medians
from bench.thresholds import THRESHOLDS
from services.ingress import github_rules
from services.ingress.rules import Transition


def test_every_body_opens_a_pull_request_of_its_own() -> None:
    numbers = set()
    for delivery in islice(deliveries(), 3):
        event = github_rules.read("pull_request", json.loads(delivery.body)).event
        assert event is not None
        assert (event.transition, event.draft) == (Transition.OPENED, False)
        numbers.add((event.repo_id, event.number, event.head_sha))
    assert len(numbers) == 3


def test_large_bodies_are_as_large_as_they_say() -> None:
    assert [len(each.body) // 1000 for each in large(50_000, 2)] == [50, 50]


def test_contenders_take_turns_and_each_begins_once() -> None:
    turns: list[str] = []

    def contender(name: str) -> float:
        turns.append(name)
        return float(len(turns))

    found = medians({name: partial(contender, name) for name in "ab"}, 3)

    assert turns == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": 4.0, "b": 3.0}


@pytest.mark.parametrize(("value", "missed"), [(0.5, 0), (0.499, 1)])
def test_what_is_missed_is_said(value: float, missed: int) -> None:
    results = Results()
    results.ratio("submit_unary_vs_echo", value)

    assert len(results.missed()) == missed
    assert "at least 0.5" in results.table()


def test_every_threshold_has_a_source() -> None:
    assert len({each.name for each in THRESHOLDS}) == len(THRESHOLDS)
    assert all(each.source for each in THRESHOLDS)


@pytest.mark.parametrize("name", PYTHON_OF_PEERS)
def test_peers_in_python_are_pinned_by_hash(name: str) -> None:
    lock = (PEERS / name / "requirements.lock").read_text()
    pinned = re.findall(r"^\S+==\S+.*\\$", lock, re.MULTILINE)
    assert pinned
    assert "://" not in lock
    assert len(re.split(r"^(?=\S)", lock, flags=re.MULTILINE)) - 1 == len(pinned)


@pytest.mark.parametrize("name", NODE_PEERS)
def test_peers_on_node_are_pinned_by_hash(name: str) -> None:
    lock = json.loads((PEERS / name / "package-lock.json").read_text())
    packages = [package for path, package in lock["packages"].items() if path]
    assert packages
    assert all("integrity" in package and "resolved" not in package for package in packages)

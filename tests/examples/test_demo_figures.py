"""What the demonstration calls wrong: each of its figures, one at a time."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from fencepost.watchdog.v1 import watchdog_pb2

from examples.demo.cast import PAYLOAD, Cast, Pull
from examples.demo.figures import Figures, proportional_set_size_mb, wrong
from examples.demo.play import Answer, StepFailedError, Story
from examples.scripted_forge.client import PostedReview
from examples.trace_receiver.client import ExportedSpan
from tests.examples.path_spans import path_spans

PULL = Pull.of(PAYLOAD.read_bytes())
RIGHT = Figures(
    delivery="d-1",
    review_key=f"{PULL.repo_name}#{PULL.number}@{PULL.head_sha}",
    dispatch_epoch=1,
    flushes=3,
    publications=1,
    remote_reviews=1,
    second_answer="DUPLICATE",
    trace_spans=16,
    seconds_to_publication=0.5,
    pss_mb={"ingress": 60.0},
)


def review(body: str) -> PostedReview:
    """A review as the forge lists it."""
    return PostedReview(1, "fencepost[bot]", "COMMENTED", body, PULL.head_sha, "http://forge/1")


def told(
    spans: Sequence[ExportedSpan] | None = None,
    body: str = "<!-- fencepost-review key=k -->\nFine.",
) -> Story:
    """A story in which everything went right, unless said otherwise."""
    return Story(
        delivery_id="d-1",
        review_key=RIGHT.review_key,
        first=Answer(status=202, outcome="ACCEPTED"),
        second=Answer(status=200, outcome="DUPLICATE"),
        events=[watchdog_pb2.TimelineEvent(kind="lease.granted", ids={"epoch": "1"})],
        reviews=[review(body)],
        spans=list(path_spans() if spans is None else spans),
    )


def stage() -> Cast:
    """A cast of which only the pull request is looked at."""
    nobody = cast(Any, None)
    return Cast(
        suite=nobody, forge=nobody, receiver=nobody, bot=nobody, bot_log=Path("-"), pull=PULL
    )


def test_nothing_is_wrong_when_all_is_right() -> None:
    assert wrong(RIGHT, told(), stage()) == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"review_key": "github.com/1#2@3"}, "the key must name repository"),
        ({"dispatch_epoch": 2}, "at epoch 1"),
        ({"flushes": 2}, "3 flushes must be durable"),
        ({"publications": 0}, "the ledger must hold one publication"),
        ({"remote_reviews": 2}, "the forge must hold one review"),
        ({"second_answer": "ACCEPTED"}, "the second answer must be DUPLICATE"),
        ({"pss_mb": {"ingress": 151.0}}, "each service must stay below 150 MB"),
    ],
)
def test_a_wrong_figure_is_named(changed: dict[str, Any], sentence: str) -> None:
    (fault,) = wrong(replace(RIGHT, **changed), told(), stage())
    assert sentence in fault


def test_a_review_without_evidence_is_named() -> None:
    (fault,) = wrong(RIGHT, told(body="Fine."), stage())
    assert fault == "the review must carry its evidence"


def test_a_trace_with_a_gap_is_named() -> None:
    gap = replace(path_spans()[0], span_id="e" * 16, name="SELECT", parent_span_id="f" * 16)
    (fault,) = wrong(RIGHT, told([*path_spans(), gap]), stage())
    assert fault.startswith("the trace must be whole")


def test_a_step_that_the_trace_does_not_tell_is_named() -> None:
    again = replace(path_spans()[0], span_id="e" * 16)
    (fault,) = wrong(RIGHT, told([*path_spans(), again]), stage())
    assert fault == "the trace must have 1 webhook of ingress below nothing"


def test_memory_that_cannot_be_read_is_no_small_memory() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    try:
        with pytest.raises(StepFailedError, match="memory of process"):
            proportional_set_size_mb(ended.pid)
    finally:
        ended.wait()

"""The demonstration ends with 0 as it is, and with 1 when a step went wrong or a part has died."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ENDS_WITHIN_S = 90


@dataclass(frozen=True)
class Ended:
    """How the demonstration ended; `figures` is its last line, None when it printed none."""

    status: int
    said: str
    printed: str
    figures: dict[str, Any] | None


def demo(*options: str) -> Ended:
    """Plays it to its end."""
    played = subprocess.run(
        _command(*options),
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        timeout=ENDS_WITHIN_S,
    )
    return _ended(played.returncode, played.stdout, played.stderr)


def _command(*options: str) -> list[str]:
    return [sys.executable, "-m", "examples.demo", *options]


def _ended(status: int, printed: str, said: str) -> Ended:
    lines = printed.splitlines()
    figures = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else None
    return Ended(status, said, printed, figures)


def test_one_webhook_becomes_one_review() -> None:
    ended = demo()
    assert ended.status == 0, ended.said
    figures = ended.figures
    assert figures is not None
    assert set(figures) == {
        "delivery",
        "review_key",
        "dispatch_epoch",
        "flushes",
        "publications",
        "remote_reviews",
        "second_answer",
        "trace_spans",
        "seconds_to_publication",
        "pss_mb",
    }
    assert figures["review_key"].startswith("Codertocat/Hello-World#2@")
    assert (figures["dispatch_epoch"], figures["flushes"]) == (1, 3)
    assert (figures["publications"], figures["remote_reviews"]) == (1, 1)
    assert figures["second_answer"] == "DUPLICATE"
    assert set(figures["pss_mb"]) == {"ingress", "dispatcher", "publisher", "watchdog"}
    assert figures["delivery"] in ended.printed


def test_a_lost_flush_fails_it() -> None:
    ended = demo("--bot", "tests.system.bots.losing_a_flush")
    assert ended.status == 1
    assert "FAILED: 3 flushes must be durable" in ended.said
    for log in ("bot", "dispatcher", "ingress", "postgres", "publisher", "watchdog"):
        assert f"The end of {log}.log:" in ended.said
    assert ended.said.count('"event": "serving"') == 4


def test_a_dead_service_fails_it() -> None:
    playing = subprocess.Popen(
        _command(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert playing.stderr is not None
    seen = ""
    for line in playing.stderr:
        seen += line
        if found := re.search(r"^  publisher .* process (\d+)$", line):
            os.kill(int(found[1]), signal.SIGKILL)
            break
    printed, said = playing.communicate(timeout=ENDS_WITHIN_S)
    assert playing.returncode == 1, seen + said
    assert "FAILED: publisher was killed by SIGKILL" in said
    assert printed == "" or not printed.splitlines()[-1].startswith("{")

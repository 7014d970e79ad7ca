"""The demonstration ends with 0 as it is, and with 1 when a step went wrong or a part has died."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENDS_WITHIN_S = 90


def command() -> list[str]:
    return [sys.executable, "-m", "examples.demo"]


def test_one_webhook_becomes_one_review() -> None:
    played = subprocess.run(
        command(), cwd=ROOT, capture_output=True, check=False, text=True, timeout=ENDS_WITHIN_S
    )
    assert played.returncode == 0, played.stderr
    *timeline, last = played.stdout.splitlines()
    figures = json.loads(last)
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
    assert any(figures["delivery"] in line for line in timeline)
    assert not any(line.startswith("Next") for line in timeline)
    assert played.stderr.splitlines()[-1] == "Every step was right."


def test_a_dead_service_fails_it() -> None:
    playing = subprocess.Popen(
        command(),
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
    for log in ("bot", "dispatcher", "ingress", "postgres", "publisher", "watchdog"):
        assert f"The end of {log}.log:" in said
    # The one that died is quoted a second time.
    assert said.count('"event": "serving"') == 5

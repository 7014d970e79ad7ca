"""What is said of a service that has ended is of this start of it."""

import subprocess
import sys
from pathlib import Path

from services.processes import Running, start_service

EARLIER = "words of an earlier start\n"


def test_the_last_words_are_of_this_start(tmp_path: Path) -> None:
    log_file = tmp_path / "ingress.log"
    log_file.write_text(EARLIER)
    # Without any setting it ends at once, and says why.
    running = start_service("ingress", {}, admin_address="127.0.0.1:1", log_file=log_file)
    assert running.process.wait(timeout=60) != 0
    assert EARLIER.strip() not in running.ending
    assert "INGRESS_" in running.ending
    assert log_file.read_text().startswith(EARLIER)


def test_one_that_said_nothing_is_not_given_the_words_of_another(tmp_path: Path) -> None:
    log_file = tmp_path / "ingress.log"
    log_file.write_text(EARLIER)
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    process.wait(timeout=60)
    running = Running("ingress", process, "127.0.0.1:1", log_file, log_file.stat().st_size)
    assert running.ending == (
        f"ingress ended with code 3. The end of its log, {log_file}:\n(nothing)"
    )

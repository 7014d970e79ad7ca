"""One real webhook becomes one review: `python -m examples.demo`.

Prints the timeline and, last, one line of JSON; exits 0 only if every step was right.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from examples.demo.cast import PAYLOAD, Pull, last_words, prepared_stage
from examples.demo.ending import FAILED, FAILURES, exit_status, failed
from examples.demo.play import Play
from examples.demo.show import say

STOPPED = 130


def main() -> int:
    """Plays once."""
    argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="fencepost-demo-") as folder:
        say(f"Starting the suite, a forge and a trace receiver in {folder} …")
        status = play_in(Path(folder))
        if status == FAILED:
            # The logs go with the folder.
            say(last_words(Path(folder)))
    return status


def play_in(folder: Path) -> int:
    """Plays with data in the folder; returns the exit status."""
    try:
        with prepared_stage(folder) as stage, stage.cast(Pull.of(PAYLOAD.read_bytes())) as cast:
            return exit_status(cast, Play(cast))
    except FAILURES as failure:
        return failed(str(failure))
    except KeyboardInterrupt:
        say("Stopped.")
        return STOPPED


if __name__ == "__main__":
    sys.exit(main())

"""One real webhook becomes one review: `python -m examples.demo`.

Prints the timeline and, last, one line of JSON; exits 0 only if every step was right.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from examples.child_process import StartError
from examples.demo.cast import BOT, on_stage
from examples.demo.play import Play, StepFailedError
from examples.demo.show import say, show
from services.suite import SuiteError
from shared.embedded import EmbeddedPostgresError

FAILURES = (StepFailedError, SuiteError, EmbeddedPostgresError, StartError, ChildProcessError)


def main() -> int:
    """Plays once."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--bot", default=BOT, help="module of another bot to play with")
    parser.add_argument("--unsigned", action="store_true", help="leave the signature out")
    parser.add_argument(
        "--within-s", type=float, default=30.0, help="how long the publication may take"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fencepost-demo-") as folder:
        say(f"Starting the suite, a forge and a trace receiver in {folder} …")
        try:
            with on_stage(Path(folder), bot=options.bot) as cast:
                play = Play(cast, signed=not options.unsigned, within_s=options.within_s)
                return show(cast, play)
        except FAILURES as failure:
            say(f"FAILED: {failure}")
            return 1
        except KeyboardInterrupt:
            say("Stopped.")
            return 130


if __name__ == "__main__":
    sys.exit(main())

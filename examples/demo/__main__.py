"""One real webhook becomes one review: `python -m examples.demo`.

Prints the timeline and, last, one line of JSON; exits 0 only if every step was right.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import httpx
from fencepost.errors import FencepostError

from examples.child_process import StartError
from examples.demo.cast import BOT, Cast, on_stage
from examples.demo.figures import measure, wrong
from examples.demo.play import Play, StepFailedError, show_timeline
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
        _say(f"Starting the suite, a forge and a trace receiver in {folder} …")
        try:
            with on_stage(Path(folder), bot=options.bot) as cast:
                play = Play(cast, signed=not options.unsigned, within_s=options.within_s)
                return _show(cast, play)
        except FAILURES as failure:
            _say(f"FAILED: {failure}")
            return 1


def _show(cast: Cast, play: Play) -> int:
    for service, process_id in cast.suite.process_ids.items():
        _say(f"  {service:<10} {cast.suite.addresses.grpc[service]:<16} process {process_id}")
    _say(f"Posting {cast.pull.url} as a signed webhook, twice …")
    try:
        story = play.perform()
    except (httpx.HTTPError, FencepostError) as unanswered:
        # Whose end it was says more than the call that met it.
        cast.must_be_alive()
        raise StepFailedError(f"A call was not answered: {unanswered}") from unanswered
    print(show_timeline(cast, story.delivery_id))
    figures = measure(cast, story)
    faults = wrong(figures, story, cast)
    for fault in faults:
        _say(f"FAILED: {fault}.")
    print(json.dumps(figures.as_json()), flush=True)
    return 1 if faults else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

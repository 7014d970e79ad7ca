"""Plays on stage and shows what happened."""

import json
import sys

import httpx
from fencepost.errors import FencepostError

from examples.demo.cast import Cast
from examples.demo.figures import measure, wrong
from examples.demo.play import Play, StepFailedError, show_timeline


def show(cast: Cast, play: Play) -> list[str]:
    """Plays, prints the timeline and the figures; returns a sentence for each thing gone wrong.

    Raises StepFailedError, SuiteError, ChildProcessError.
    """
    for service, process_id in cast.suite.process_ids.items():
        say(f"  {service:<10} {cast.suite.addresses.grpc[service]:<16} process {process_id}")
    say(f"Posting {cast.pull.url} as a signed webhook, twice …")
    try:
        story = play.perform()
        print(show_timeline(cast, story.delivery_id))
        figures = measure(cast, story)
    except (StepFailedError, httpx.HTTPError, FencepostError) as failure:
        # Whose end it was says more than the step that met it.
        cast.must_be_alive()
        if isinstance(failure, StepFailedError):
            raise
        raise StepFailedError(f"A call was not answered: {failure}") from failure
    faults = wrong(figures, story, cast)
    for fault in faults:
        say(f"FAILED: {fault}.")
    print(json.dumps(figures.as_json()), flush=True)
    return faults


def say(line: str) -> None:
    """For the person; what scripts read goes to stdout."""
    print(line, file=sys.stderr, flush=True)

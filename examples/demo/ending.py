"""How the demonstration ends: 0 only if every step was right."""

from examples.child_process import StartError
from examples.demo.cast import Cast
from examples.demo.play import Play, StepFailedError
from examples.demo.show import say, show
from services.suite import SuiteError
from shared.embedded import EmbeddedPostgresError

FAILURES = (StepFailedError, SuiteError, EmbeddedPostgresError, StartError, ChildProcessError)
FAILED = 1


def exit_status(cast: Cast, play: Play) -> int:
    """Plays on a stage that stands; 0 only if every step was right."""
    try:
        faults = show(cast, play)
    except FAILURES as failure:
        return failed(str(failure))
    if faults:
        return failed(f"{len(faults)} of what must hold did not.")
    say("Every step was right.")
    return 0


def failed(why: str) -> int:
    """Says why; returns the exit status."""
    say(f"FAILED: {why}")
    return FAILED

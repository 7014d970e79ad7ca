"""Client side of the Fencepost suite: contracts, typed errors, channel, worker and command line.

What a bot needs is imported from here: `from fencepost import Run, Worker`. Each name is loaded
when it is first asked for, so that a program that needs only the errors pays for no more.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.failures import DeterministicError as DeterministicError
    from fencepost.failures import PermanentError as PermanentError
    from fencepost.failures import RetryLaterError as RetryLaterError
    from fencepost.run import ReviewComment as ReviewComment
    from fencepost.run import Run as Run
    from fencepost.submitting import Submitter as Submitter
    from fencepost.worker import Worker as Worker

__version__ = "0.1.0"

__all__ = [
    "DeterministicError",
    "PermanentError",
    "RetryLaterError",
    "ReviewComment",
    "Run",
    "Submitter",
    "Worker",
]

_HOMES = {
    "DeterministicError": "fencepost.failures",
    "PermanentError": "fencepost.failures",
    "RetryLaterError": "fencepost.failures",
    "ReviewComment": "fencepost.run",
    "Run": "fencepost.run",
    "Submitter": "fencepost.submitting",
    "Worker": "fencepost.worker",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found

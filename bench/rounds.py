"""Runs in turns, so that what else the machine does falls on all contenders alike."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long is measured: so many rounds, so many seconds each."""

    rounds: int = 5
    seconds: float = 3.0
    in_flight: int = 32


def medians(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of each contender, every round in another order."""
    names = list(contenders)
    measured: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            measured[name].append(contenders[name]())
    return {name: statistics.median(values) for name, values in measured.items()}

"""The load that every peer in Python gets: tasks that each enqueue one job at a time.

Runs in the peer's own environment: the standard library only. Prints one line of JSON.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the bench tells a peer."""

    database_url: str
    tasks: int
    seconds: float
    payload: str


def given() -> Given:
    """Read from the command line; the payload is text."""
    parser = argparse.ArgumentParser()
    parser.add_argument("database_url")
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--payload", required=True)
    return Given(**vars(parser.parse_args()))


async def drive(enqueue: Callable[[], Awaitable[object]], load: Given) -> None:
    """Enqueues as fast as the answers come, and prints how many were answered."""
    await enqueue()
    answered = 0
    began_s = time.perf_counter()

    async def task() -> None:
        nonlocal answered
        while time.perf_counter() - began_s < load.seconds:
            await enqueue()
            answered += 1

    await asyncio.gather(*(task() for _ in range(load.tasks)))
    took_s = time.perf_counter() - began_s
    sys.stdout.write(json.dumps({"answered": answered, "seconds": took_s}) + "\n")

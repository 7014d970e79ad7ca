"""A bot whose handler does what its first argument says: for tests that end its process."""

import asyncio
import sys
import time

from fencepost import Run, Worker
from fencepost import worker as worker_module

worker = Worker.from_environment(queues=["reviews"])
MANNER = sys.argv[1]


@worker.handle
async def handler(run: Run) -> None:
    await run.checkpoint("begun")
    match MANNER:
        case "finishes":
            await asyncio.sleep(1)
        case "waits":
            await asyncio.Event().wait()
        case "blocks":
            time.sleep(600)  # noqa: ASYNC251, TID251 - the very fault
        case "swallows":
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    continue
        case "cleans up":
            try:
                await asyncio.Event().wait()
            finally:
                await run.checkpoint("stopped")


if __name__ == "__main__":
    # Planned to the second, the same in a tenth of the time.
    worker_module.DRAIN_S, worker_module.EXIT_S = (1.5 if MANNER == "finishes" else 0.2), 2.5
    worker.main()

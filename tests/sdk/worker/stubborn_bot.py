"""A bot whose handler does what its first argument says: for tests that end its process.

What it waits for to finish is the file that its second argument names.
"""

import asyncio
import sys
import threading
from pathlib import Path

from fencepost import Run, Worker
from fencepost import worker as worker_module

from tests.waiting import until

worker = Worker.from_environment(queues=["reviews"])
MANNER = sys.argv[1]


@worker.handle
async def handler(run: Run) -> None:
    await run.checkpoint("begun")
    match MANNER:
        case "finishes":
            await until(Path(sys.argv[2]).exists, what="word to finish")
        case "waits":
            await asyncio.Event().wait()
        case "blocks":
            threading.Event().wait()
        case "blocks a thread":
            await asyncio.to_thread(threading.Event().wait)
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
    worker_module.DRAIN_S, worker_module.EXIT_S = (2.0, 5.0) if MANNER == "finishes" else (0.2, 2.5)
    worker.main()

"""Holds its work until it is sent SIGUSR1, then finishes without publishing."""

import asyncio
import signal

from fencepost import Run, Worker

worker = Worker.from_environment(queues=["reviews"], service_name="demo-bot")
let_go = asyncio.Event()


@worker.handle
async def review(run: Run) -> None:
    """Waits, then makes one checkpoint."""
    await let_go.wait()
    await run.checkpoint("analysed", analysis_done=True)


async def main() -> None:
    """Listens for the signal before there is work."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, let_go.set)
    await worker.run()


asyncio.run(main())

"""Holds its work until the file named by LET_GO exists; BEGUN is made when it begins."""

import asyncio
import os
from pathlib import Path

from fencepost import Run, Worker

worker = Worker.from_environment(queues=["reviews"], service_name="demo-bot")
begun, let_go = Path(os.environ["BEGUN"]), Path(os.environ["LET_GO"])  # noqa: TID251


@worker.handle
async def review(run: Run) -> None:
    """Waits, then finishes without publishing."""
    begun.touch()
    while not let_go.exists():
        await asyncio.sleep(0.02)
    await run.checkpoint("analysed", analysis_done=True)


asyncio.run(worker.run())

"""Leaves one of its checkpoints out."""

import asyncio

from fencepost import Run, Worker

worker = Worker.from_environment(queues=["reviews"], service_name="demo-bot")


@worker.handle
async def review(run: Run) -> None:
    """One checkpoint only, then the final one and the review."""
    await run.checkpoint("analysed", analysis_done=True)
    await run.checkpoint(final=True)
    await run.publish_review("One flush fewer than promised.")


asyncio.run(worker.run())

"""Publishes under an epoch that it was not granted."""

import asyncio

from fencepost import Run, Worker

worker = Worker.from_environment(queues=["reviews"], service_name="demo-bot")


@worker.handle
async def review(run: Run) -> None:
    """Two checkpoints, then a review under another's epoch."""
    await run.checkpoint("analyse")
    await run.checkpoint("analysed", analysis_done=True)
    await run.checkpoint(final=True)
    run.dispatch.fence.epoch += 1
    await run.publish_review("A review without the right to post it.")


asyncio.run(worker.run())

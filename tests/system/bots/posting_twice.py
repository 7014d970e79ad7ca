"""Publishes two reviews where one is wanted."""

import asyncio

from fencepost import Run, Worker

worker = Worker.from_environment(queues=["reviews"], service_name="demo-bot")


@worker.handle
async def review(run: Run) -> None:
    """Two checkpoints, then the same review under two ordinals."""
    await run.checkpoint("analyse")
    await run.checkpoint("analysed", analysis_done=True)
    await run.checkpoint(final=True)
    await run.publish_review("Once.")
    await run.publish_review("Twice.", ordinal=1)


asyncio.run(worker.run())

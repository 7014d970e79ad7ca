"""Takes flushes for durable that never left it: a network that answers by itself would do so."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from fencepost import Run, Worker
from fencepost.dispatcher.v1.checkpoints_pb2 import FlushRequest, FlushResponse

worker = Worker.from_environment(queues=["reviews"], service_name="demo-bot")


@dataclass(frozen=True)
class Losing:
    """The checkpoint stub, without the flush whose phase is `lost`; `makes` versions as it says."""

    stub: Any
    lost: str
    makes: int

    async def Flush(self, request: FlushRequest) -> FlushResponse:  # noqa: N802 - the RPC's name
        """Stored, or answered as if."""
        if request.phase == self.lost:
            return FlushResponse(run_id=1, version=request.based_on_version + self.makes)
        response: FlushResponse = await self.stub.Flush(request)
        return response


@worker.handle
async def review(run: Run) -> None:
    """All checkpoints, of which one is lost, and the review."""
    services = run._services
    stub: Any = Losing(services.checkpoints, lost=LOST, makes=MAKES)
    run._services = replace(services, checkpoints=stub)
    await run.checkpoint("analyse")
    await run.checkpoint("analysed", analysis_done=True)
    await run.checkpoint("publish", final=True)
    await run.publish_review("One flush fewer than promised.")


LOST, MAKES = "analyse", 0
"""That the version stays is the worst case: no later flush objects."""

if __name__ == "__main__":
    asyncio.run(worker.run())

"""Starts the dispatcher: its parts, then serving until it is told to stop."""

import asyncio

from services.dispatcher.checkpoints.operations import CheckpointOperations
from services.dispatcher.checkpoints.servicer import CheckpointServicer
from services.dispatcher.dispatch.operations import DispatchOperations
from services.dispatcher.dispatch.servicer import DispatchServicer
from services.dispatcher.dispatch.wakeups import Wakeups
from services.dispatcher.housekeeping.expire_operations import Expirer
from services.dispatcher.housekeeping.export_client import span_export
from services.dispatcher.housekeeping.look_operations import Duties, Lookout, nobody
from services.dispatcher.housekeeping.move_operations import Mover
from services.dispatcher.housekeeping.resolve_operations import HeadResolver
from services.dispatcher.intents.operations import IntentOperations
from services.dispatcher.intents.servicer import IntentServicer
from services.dispatcher.publisher_client import PublisherClient
from services.dispatcher.queues.operations import QueueOperations
from services.dispatcher.queues.servicer import QueueServicer
from services.dispatcher.settings import DispatcherSettings
from shared import runtime, settings
from shared.ticking import Ticker


async def main() -> None:
    """Runs until SIGTERM or SIGINT."""
    limits = settings.load(DispatcherSettings)
    async with runtime.started("dispatcher", limits) as rt:
        wakeups = Wakeups()
        mover = Mover(rt.database, wakeups, limits)
        expirer = Expirer(rt.database, wakeups, limits)
        publisher = PublisherClient(limits)
        heads = HeadResolver(rt.database, wakeups, publisher.resolve_head, limits)
        moving = Ticker("move_due", period_ms=limits.mover_period_ms, tick=mover.tick)
        naming = Ticker("resolve_heads", period_ms=limits.head_resolve_period_ms, tick=heads.tick)
        expiring = Ticker("expire_leases", period_ms=limits.expiry_period_ms, tick=expirer.tick)
        exporting, closing = span_export(rt.database, limits)
        duties = Duties(
            move=moving.wake,
            resolve=naming.wake,
            expire=expiring.wake,
            export=exporting.wake if exporting else nobody,
        )
        lookout = Lookout(rt.database, wakeups, duties)
        looking = Ticker("look", period_ms=limits.poll_interval_ms, tick=lookout.tick)
        dispatching = DispatchOperations(rt.database, wakeups, limits)
        await rt.serve(
            [
                DispatchServicer(dispatching, wakeups, limits, rt.draining, rt.tracer),
                IntentServicer(IntentOperations(rt.database), wakeups),
                QueueServicer(QueueOperations(rt.database)),
                CheckpointServicer(CheckpointOperations(rt.database), rt.tracer),
            ],
            background=[looking, moving, naming, expiring, *([exporting] if exporting else [])],
            closing=[*closing, publisher.close],
        )


if __name__ == "__main__":
    asyncio.run(main())

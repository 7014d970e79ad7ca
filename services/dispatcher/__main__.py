"""Starts the dispatcher: its parts, then serving until it is told to stop."""

import asyncio

from services.dispatcher.checkpoints.operations import CheckpointOperations
from services.dispatcher.checkpoints.servicer import CheckpointServicer
from services.dispatcher.dispatch.operations import DispatchOperations
from services.dispatcher.dispatch.servicer import DispatchServicer
from services.dispatcher.dispatch.wakeups import Wakeups
from services.dispatcher.housekeeping.expire_operations import Expirer
from services.dispatcher.housekeeping.export_operations import SpanExporter
from services.dispatcher.housekeeping.export_servicer import Collector
from services.dispatcher.housekeeping.look_operations import Lookout
from services.dispatcher.housekeeping.move_operations import Mover
from services.dispatcher.intents.operations import IntentOperations
from services.dispatcher.intents.servicer import IntentServicer
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
        moving = Ticker("move_due", period_ms=limits.mover_period_ms, tick=mover.tick)
        expiring = Ticker("expire_leases", period_ms=limits.expiry_period_ms, tick=expirer.tick)
        lookout = Lookout(rt.database, wakeups, wake_mover=moving.wake, wake_expirer=expiring.wake)
        looking = Ticker("look", period_ms=limits.poll_interval_ms, tick=lookout.tick)
        background = [looking, moving, expiring]
        closing = []
        if limits.otlp_endpoint:
            collector = Collector(limits.otlp_endpoint, timeout_ms=limits.otlp_timeout_ms)
            exporter = SpanExporter(rt.database, collector.send, limits)
            period_ms = limits.span_export_period_ms
            background.append(Ticker("export_spans", period_ms=period_ms, tick=exporter.tick))
            closing.append(collector.close)
        dispatching = DispatchOperations(rt.database, wakeups, limits)
        servicers = [
            DispatchServicer(dispatching, wakeups, limits, rt.draining, rt.tracer),
            IntentServicer(IntentOperations(rt.database), wakeups),
            CheckpointServicer(CheckpointOperations(rt.database), rt.tracer),
        ]
        await rt.serve(servicers, background=background, closing=closing)


if __name__ == "__main__":
    asyncio.run(main())

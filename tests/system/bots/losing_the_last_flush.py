"""Loses the flush that its review is to rest on."""

import asyncio

from tests.system.bots import losing_a_flush

losing_a_flush.LOST, losing_a_flush.MAKES = "publish", 1
asyncio.run(losing_a_flush.worker.run())

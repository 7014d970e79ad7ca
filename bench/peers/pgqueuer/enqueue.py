"""pgqueuer: one INSERT a job, over asyncpg.

Setting: AsyncpgPoolDriver on one connection a task, which its documentation names for throughput
under high concurrency (janbjorge.github.io/pgqueuer/reference/drivers).
"""

import asyncio

import asyncpg
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries

from bench.one_by_one import drive, given


async def main() -> None:
    """Installs the schema where it is absent, and enqueues."""
    load = given()
    async with asyncpg.create_pool(
        load.database_url, min_size=load.tasks, max_size=load.tasks
    ) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        if not await queries.schema_is_installed():
            await queries.install()
        payload = load.payload.encode()
        await drive(lambda: queries.enqueue("bench", payload), load)


if __name__ == "__main__":
    asyncio.run(main())

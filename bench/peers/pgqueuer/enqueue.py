"""pgqueuer: one INSERT a job, over asyncpg.

Setting: asyncpg's pool, one connection a task, the driver that its documentation names for
applications that share connections (pgqueuer.readthedocs.io, "Database drivers").
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

"""absurd: one function call in the database a job, over psycopg.

Setting: a client holds one connection, so each task has a client of its own (the README of
absurd-sdk, "Asynchronous API"). The schema is the one that absurdctl of the same release brings.
"""

import asyncio
from contextlib import AsyncExitStack

from absurd_sdk import AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL
from psycopg import AsyncConnection

from bench.one_by_one import drive, given


async def main() -> None:
    """Installs the schema where it is absent, and enqueues."""
    load = given()
    async with AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(
                await AsyncConnection.connect(load.database_url, autocommit=True)
            )
            for _ in range(load.tasks)
        ]
        present = await connections[0].execute("SELECT to_regclass('absurd.queues') IS NOT NULL")
        if not (await present.fetchone() or [False])[0]:
            await connections[0].execute(BUNDLED_SCHEMA_SQL)
            await AsyncAbsurd(connections[0]).create_queue("default")
        free = [AsyncAbsurd(connection) for connection in connections]
        params = {"payload": load.payload}

        async def enqueue() -> None:
            client = free.pop()
            await client.spawn("bench", params, queue="default")
            free.append(client)

        await drive(enqueue, load)


if __name__ == "__main__":
    asyncio.run(main())

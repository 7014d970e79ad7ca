"""oban: one INSERT a job, over psycopg.

Setting: an instance without queues, which only enqueues, on a pool of one connection a task
(the documentation of Oban and Oban.create_pool in the package, "Client mode").
"""

import asyncio

from oban import Job, Oban
from oban.schema import install

from bench.one_by_one import drive, given


async def main() -> None:
    """Installs the schema where it is absent, and enqueues."""
    load = given()
    pool = await Oban.create_pool(load.database_url, min_size=load.tasks, max_size=load.tasks)
    async with pool.connection() as connection:
        present = await connection.execute("SELECT to_regclass('oban_jobs') IS NOT NULL")
        absent = not (await present.fetchone())[0]
    if absent:
        await install(pool)
    oban = Oban(pool=pool)
    await drive(
        lambda: oban.enqueue(Job(worker="bench.Bench", args={"payload": load.payload})), load
    )
    await pool.close()


if __name__ == "__main__":
    asyncio.run(main())

"""procrastinate: one function call in the database a job, over psycopg.

Setting: the asynchronous connector with a pool of one connection a task
(PsycopgConnector's own documentation in the package, pool_args).
"""

import asyncio

from procrastinate import App, PsycopgConnector

from bench.one_by_one import drive, given


async def main() -> None:
    """Installs the schema where it is absent, and enqueues."""
    load = given()
    connector = PsycopgConnector(
        conninfo=load.database_url, min_size=load.tasks, max_size=load.tasks
    )
    app = App(connector=connector)
    async with app.open_async():
        present = await connector.execute_query_one_async(
            "SELECT to_regclass('procrastinate_jobs') IS NOT NULL AS present"
        )
        if not present["present"]:
            await app.schema_manager.apply_schema_async()
        job = app.configure_task("bench")
        await drive(lambda: job.defer_async(payload=load.payload), load)


if __name__ == "__main__":
    asyncio.run(main())

"""DBOS: one workflow a job, through its client; its own command brings the schema up to date.

Setting: the client's pool has one connection a task, and as many threads, since its asynchronous
call runs in a thread (DBOSClient's own documentation in the package, system_database_pool_size).
"""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dbos import DBOSClient

from bench.one_by_one import Given, drive, given

MIGRATE = Path(sys.executable).parent / "dbos"


async def main(load: Given) -> None:
    """Enqueues."""
    threads = ThreadPoolExecutor(max_workers=load.tasks)
    asyncio.get_running_loop().set_default_executor(threads)
    client = DBOSClient(system_database_url=load.database_url, system_database_pool_size=load.tasks)
    options = {"queue_name": "bench", "workflow_name": "bench"}
    await drive(lambda: client.enqueue_async(options, load.payload), load)
    client.destroy()


if __name__ == "__main__":
    told = given()
    command = [str(MIGRATE), "migrate", "--sys-db-url", told.database_url]
    subprocess.run(command, check=True, stdout=sys.stderr)
    asyncio.run(main(told))

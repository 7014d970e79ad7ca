"""Eight of the largest bodies at once: all are taken in, and ingress stays within its memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from psycopg import AsyncConnection

from shared.schema.grants import Service
from tests.rows import Rows
from tests.services.ingress.pulls import ENDPOINT, pull
from tests.services.ingress.registered import register
from tests.services.ingress.served import served_beside
from tests.services.ingress.webhooks.posting import PATH, signed

BODIES = 8
BODY_BYTES = 24 * 1024 * 1024
MEMORY_BYTES_MAX = 400_000_000
PATIENCE_S = 300.0
"""Some 10 s; the rest is for a busy machine."""

PATIENT = {
    "INGRESS_LARGE_ANSWER_TIMEOUT_MS": "300000",
    "INGRESS_BODY_READ_TIMEOUT_MS": "300000",
    "INGRESS_DATABASE_STATEMENT_TIMEOUT_MS": "60000",
}
ITEM = json.dumps({"id": 123456, "path": "a/b", "flag": True, "inner": {"a": 1, "b": [1, 2, 3]}})
FILLERS = {
    "text": json.dumps("x" * BODY_BYTES),
    "objects": "[" + ", ".join([ITEM] * (BODY_BYTES // (len(ITEM) + 2))) + "]",
}


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    register(owner_url, ENDPOINT)
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.mark.guarantee("I10")
@pytest.mark.parametrize("filler", FILLERS)
async def test_the_largest_bodies_side_by_side_are_taken_in_within_the_memory(
    service_url: Callable[[Service], str], rows: Rows, filler: str
) -> None:
    async with (
        served_beside(service_url("ingress"), PATIENT) as ingress,
        httpx.AsyncClient(timeout=PATIENCE_S) as client,
    ):
        url = f"http://{ingress.webhooks}{PATH}"

        async def post(number: int) -> int:
            event = pull(number=number).removesuffix(b"}")
            body = event + b', "filler": ' + FILLERS[filler].encode() + b"}"
            headers = signed(body, x_github_delivery=f"d-{number}")
            return (await client.post(url, content=body, headers=headers)).status_code

        codes = await asyncio.gather(*(post(number) for number in range(1, BODIES + 1)))
        assert codes == [202] * BODIES
        assert _peak_bytes(ingress.process.pid) < MEMORY_BYTES_MAX
    assert len(await rows.all("intents")) == BODIES


def _peak_bytes(process_id: int) -> int:
    """The most memory that a process ever held."""
    status = Path(f"/proc/{process_id}/status").read_text()
    [peak_kib] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(peak_kib) * 1024

"""Intake as a test uses it: on a database, as ingress's own role, with an eye on the rows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from psycopg import AsyncConnection

from services.ingress.endpoints import Endpoint
from services.ingress.operations import Intake
from services.ingress.settings import IngressSettings
from services.ingress.submissions import SubmissionOutcome, Taken
from shared.database import Database
from shared.schema.grants import GRANTS
from tests.rows import Row, Rows
from tests.services.ingress.pulls import endpoint_of, submission

WRITTEN_TABLES = tuple(
    dict.fromkeys(
        grant.table for grant in GRANTS if grant.service == "ingress" and grant.verb != "SELECT"
    )
)
"""Every table that ingress may write."""

INTAKE_TABLES = tuple(
    table for table in WRITTEN_TABLES if table not in ("endpoints", "endpoint_secrets")
)
"""Those that what comes in may change: all but the endpoints'."""

ONE_EACH = dict.fromkeys(
    (
        "delivery_markers",
        "deliveries",
        "change_requests",
        "change_request_heads",
        "intents",
        "ready",
    ),
    1,
)
"""What one pull request leaves."""


@dataclass(frozen=True)
class Desk:
    """Intake, as a test uses it."""

    intake: Intake
    endpoint: Endpoint
    rows: Rows
    woken: list[str] = field(default_factory=list)

    async def submit(self, delivery_id: str, body: bytes, **changes: Any) -> SubmissionOutcome:
        """Submits one pull_request event."""
        [outcome] = await self.intake.submit(
            [submission(self.endpoint, delivery_id, body, **changes)]
        )
        return outcome

    async def take(self, delivery_id: str, body: bytes, **changes: Any) -> Taken:
        """The same, where it is not refused."""
        outcome = await self.submit(delivery_id, body, **changes)
        assert isinstance(outcome, Taken), outcome
        return outcome

    async def heads(self) -> list[Row]:
        """Heads in the order in which they became current."""
        return sorted(await self.rows.all("change_request_heads"), key=itemgetter("generation"))

    async def written(self) -> dict[str, int]:
        """How many rows each table of intake has."""
        return await written(self.rows)


async def written(rows: Rows) -> dict[str, int]:
    """How many rows each table of intake has, those without any left out."""
    counts = {table: len(await rows.all(table)) for table in INTAKE_TABLES}
    return {table: count for table, count in counts.items() if count}


@asynccontextmanager
async def opened(owner_url: str, settings: IngressSettings) -> AsyncIterator[Desk]:
    """A desk; the owner reads and makes rows, intake works as its role."""
    async with (
        await AsyncConnection.connect(owner_url, autocommit=True) as connection,
        Database.create(settings, application_name="ingress") as database,
    ):
        woken: list[str] = []
        intake = Intake(database, settings, woken.append)
        yield Desk(intake, endpoint_of(settings), Rows(connection), woken)

"""The HTTP door without a server or a process: requests by the thousand, in a loop of their own."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import psycopg
from opentelemetry.trace import NoOpTracer
from psycopg import sql
from starlette.applications import Starlette

from services.ingress.batched import BatchedIntake
from services.ingress.endpoints.snapshot import Endpoints
from services.ingress.operations import Intake
from services.ingress.webhooks.door import WebhookDoor
from shared.database import Database
from tests.database_server import DatabaseServer, as_service
from tests.services.ingress.desk import WRITTEN_TABLES
from tests.services.ingress.gitea_pulls import endpoint as gitea_endpoint
from tests.services.ingress.pulls import ENDPOINT, settings_of
from tests.services.ingress.registered import KEYRING, register
from tests.services.ingress.webhooks.gitlab_posting import endpoint as gitlab_endpoint
from tests.services.ingress.webhooks.posting import LIMIT_BYTES, Headers

ANSWER_WITHIN_S = 30.0

ENDPOINTS = {
    "forgejo": gitea_endpoint("forgejo"),
    "gitea": gitea_endpoint("gitea"),
    "github": ENDPOINT,
    "signed": replace(gitlab_endpoint("signature"), name="signed"),
    "token": replace(gitlab_endpoint("token"), name="token"),
}
"""One endpoint for each way to prove who sends, by its name."""

_COUNTER = """
    CREATE SEQUENCE public.written;
    CREATE FUNCTION public.count_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        AS $$ BEGIN PERFORM nextval('public.written'); RETURN NULL; END $$;
    SELECT nextval('public.written');
"""
_COUNTED = """
    CREATE TRIGGER counted AFTER INSERT OR UPDATE OR DELETE ON fencepost.{}
        FOR EACH ROW EXECUTE FUNCTION public.count_row()
"""
_WRITTEN = "SELECT last_value FROM public.written"


@dataclass(frozen=True)
class InProcess:
    """A door on a database of its own that has an endpoint of every kind."""

    app: Starlette
    runner: asyncio.Runner
    owner: "psycopg.Connection[tuple[Any, ...]]"
    ahead_s: float

    @property
    def now_s(self) -> int:
        """The database's clock."""
        return round(monotonic() + self.ahead_s)

    def written(self) -> int:
        """How many rows ingress has written in any table, those that it took back included."""
        row = self.owner.execute(_WRITTEN).fetchone()
        assert row is not None
        return int(row[0])

    def post(self, name: str, headers: Headers, pieces: Sequence[bytes]) -> int:
        """The status that a webhook at an endpoint is answered; raises TimeoutError."""
        path = f"/webhooks/{ENDPOINTS[name].forge}/{name}"
        return self.runner.run(self._post(path, headers, pieces))

    async def _post(self, path: str, headers: Headers, pieces: Sequence[bytes]) -> int:
        left = list(pieces)
        answered: list[int] = []

        async def receive() -> dict[str, Any]:
            body = left.pop(0) if left else b""
            return {"type": "http.request", "body": body, "more_body": bool(left)}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answered.append(message["status"])

        scope: dict[str, Any] = {"type": "http", "method": "POST", "path": path, "headers": headers}
        scope |= {"http_version": "1.1", "query_string": b"", "root_path": "", "scheme": "http"}
        async with asyncio.timeout(ANSWER_WITHIN_S):
            await self.app(scope, receive, send)
        [status] = answered
        return status


@contextmanager
def in_process(database_server: DatabaseServer) -> Iterator[InProcess]:
    """A door whose endpoints are of every kind."""
    for owner_url in database_server.each_database():
        for endpoint in ENDPOINTS.values():
            register(owner_url, endpoint)
        with asyncio.Runner() as runner, psycopg.connect(owner_url, autocommit=True) as owner:
            parts = AsyncExitStack()
            app = runner.run(_app(parts, as_service(owner_url, "ingress")))
            _count(owner)
            row = owner.execute("SELECT extract(epoch FROM clock_timestamp())::bigint").fetchone()
            assert row is not None
            yield InProcess(app, runner, owner, row[0] - monotonic())
            runner.run(parts.aclose())


def _count(owner: "psycopg.Connection[Any]") -> None:
    """Has the database count every row that is written; counting rows would take ever longer."""
    owner.execute(_COUNTER)
    for table in WRITTEN_TABLES:
        owner.execute(sql.SQL(_COUNTED).format(sql.Identifier(table)))


async def _app(parts: AsyncExitStack, service_url: str) -> Starlette:
    settings = settings_of(service_url, body_limit_bytes=LIMIT_BYTES)
    database = await parts.enter_async_context(
        Database.create(settings, application_name="ingress")
    )
    intake = Intake(database, settings, lambda _: None)
    batched = BatchedIntake(intake, settings)
    parts.push_async_callback(batched.close)
    endpoints = Endpoints(database, KEYRING, limit_bytes=settings.body_limit_bytes)
    await endpoints.refresh()
    door = WebhookDoor(endpoints, intake, batched, settings, NoOpTracer(), may_serve=lambda: None)
    return door.app()

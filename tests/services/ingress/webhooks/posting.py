"""Posts webhooks to a running ingress, in order and out of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import psycopg
from psycopg import sql

from services.ingress.endpoints.model import Endpoint
from tests.database_server import DatabaseServer, as_service
from tests.services.ingress.desk import WRITTEN_TABLES
from tests.services.ingress.pulls import ENDPOINT, SECRET
from tests.services.ingress.registered import register
from tests.services.ingress.served import Served, served
from tests.signing import github_signature

LIMIT_BYTES = 64 * 1024
READ_TIMEOUT_MS = 400
PATH = "/webhooks/github/github"
TWO_SECRETS = replace(ENDPOINT, secrets=(*ENDPOINT.secrets, b"the secret before"))

Headers = list[tuple[bytes, bytes]]
Change = str | bytes | list[bytes] | None


@dataclass
class Door:
    """A running ingress and an eye on its database."""

    ingress: Served
    owner: "psycopg.Connection[tuple[Any, ...]]"
    client: httpx.Client
    owner_url: str

    def written(self) -> dict[str, int]:
        """How many rows each table has that ingress may write."""
        counts = {}
        for table in WRITTEN_TABLES:
            query = sql.SQL("SELECT count(*) FROM fencepost.{}").format(sql.Identifier(table))
            row = self.owner.execute(query).fetchone()
            assert row is not None
            counts[table] = int(row[0])
        return counts

    def post(self, body: bytes, headers: Headers | None = None, path: str = PATH) -> httpx.Response:
        """Posts a webhook; without headers, one that is in order."""
        return self.client.post(
            f"http://{self.ingress.webhooks}{path}",
            content=body,
            headers=signed(body) if headers is None else headers,
        )


def signed(body: bytes, **changes: Change) -> Headers:
    """Headers as GitHub sends them; a change replaces a header, repeats it, or leaves it out."""
    headers: dict[str, Any] = {
        "x-github-event": "pull_request",
        "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "x-hub-signature-256": github_signature(SECRET.encode(), body),
        "content-type": "application/json",
    }
    for name, value in changes.items():
        headers[name.replace("_", "-")] = value
    return as_sent(headers)


def as_sent(headers: Mapping[str, Change]) -> Headers:
    """Headers in bytes; a list is sent as so many headers, and None not at all."""
    return [
        (name.encode(), each.encode() if isinstance(each, str) else each)
        for name, value in headers.items()
        if value is not None
        for each in (value if isinstance(value, list) else [value])
    ]


@contextmanager
def opened(
    database_server: DatabaseServer,
    environment: Mapping[str, str] | None = None,
    *,
    endpoint: Endpoint = TWO_SECRETS,
) -> Iterator[Door]:
    """A door on a database of its own, with small limits and one endpoint."""
    for owner_url in database_server.each_database():
        register(owner_url, endpoint)
        with (
            served(
                as_service(owner_url, "ingress"),
                {
                    "INGRESS_BODY_LIMIT_BYTES": str(LIMIT_BYTES),
                    "INGRESS_BODY_READ_TIMEOUT_MS": str(READ_TIMEOUT_MS),
                    **(environment or {}),
                },
            ) as ingress,
            psycopg.connect(owner_url, autocommit=True) as owner,
            httpx.Client() as client,
        ):
            yield Door(ingress, owner, client, owner_url)

"""What is measured: the suite as it is shipped, its durable database, one endpoint, traces on."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from fencepost.channel import ChannelSettings, connect
from fencepost.ingress.v1 import endpoints_pb2 as pb
from fencepost.ingress.v1.endpoints_pb2_grpc import EndpointServiceStub
from psycopg import sql
from psycopg.conninfo import make_conninfo

from bench.payloads import SECRET
from services.suite import Suite

ROOT = Path(__file__).resolve().parents[1]
TENANT = "bench"
ENDPOINT = "bench"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A running suite."""

    suite: Suite

    @property
    def ingress(self) -> ChannelSettings:
        """How ingress is reached, with a key that is checked like any other."""
        return ChannelSettings(
            target=self.suite.addresses.grpc["ingress"],
            api_key=self.suite.credentials["OPERATOR_API_KEY"],
            tenant=TENANT,
        )

    @property
    def webhook_address(self) -> str:
        """Where webhooks go, host:port."""
        return self.suite.addresses.webhooks

    def database_url(self, name: str) -> str:
        """An empty database of this name on the same server, as its owner; made if absent."""
        owner_url = self.suite.owner_url
        with psycopg.connect(owner_url, autocommit=True) as owner:
            found = owner.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
            if found.fetchone() is None:
                owner.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        scheme, _, rest = owner_url.partition("://")
        return f"{scheme}://{rest.rpartition('/')[0]}/{name}"

    def settings_of_server(self) -> dict[str, str]:
        """What the server says of its durability, and its version."""
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_level")
        with psycopg.connect(make_conninfo(self.suite.owner_url)) as owner:
            rows = owner.execute(
                "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(names)]
            )
            return dict(rows.fetchall())


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Starts a trace sink and the suite on free ports, and declares the endpoint."""
    with sink() as traces:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{traces}"}
        with Suite(folder, environment=environment, tenant=TENANT, free_ports=True) as suite:
            stage = Stage(suite=suite)
            asyncio.run(_declare_endpoint(stage))
            yield stage


@contextmanager
def sink() -> Iterator[str]:
    """The address of a trace receiver that keeps nothing."""
    command = [sys.executable, "-m", "bench.sink"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def _declare_endpoint(stage: Stage) -> None:
    endpoint = pb.Endpoint(
        name=ENDPOINT,
        forge=pb.FORGE_KIND_GITHUB,
        forge_instance="github.com",
        proof=pb.PROOF_SIGNATURE,
        routes=[pb.Route(action="review", queue="reviews")],
        drafts=pb.DRAFT_POLICY_IGNORE,
    )
    async with connect(stage.ingress) as channel:
        stub: Any = EndpointServiceStub(channel)
        await stub.PutEndpoint(pb.PutEndpointRequest(endpoint=endpoint, secret=SECRET))

"""A publisher, the forge it writes to, and work to publish, for tests of the whole path."""

from dataclasses import dataclass
from typing import Any

from opentelemetry.trace import NoOpTracer, Tracer
from pydantic import SecretStr

from examples.scripted_forge.client import LoggedRequest, PostedReview, PullFixture, ScriptedForge
from services.publisher.connections.open_operations import Connections
from services.publisher.forges.connect import Forges, configured_access
from services.publisher.operations import Publishing
from services.publisher.settings import PublisherSettings
from shared.database import Database
from tests.published.github.validator import validate_request
from tests.rows import Row, Rows, Work


@dataclass(frozen=True)
class Bench:
    """One publisher on a real database and a real forge; both outlive the publisher."""

    rows: Rows
    forge: ScriptedForge
    database: Database
    settings: PublisherSettings

    def forges(self, *, tracer: Tracer | None = None, **changes: Any) -> Forges:
        """A publisher process's way to forges."""
        return Forges(self.settings.model_copy(update=changes), tracer or NoOpTracer())

    def publishing(
        self, *, tracer: Tracer | None = None, forges: Forges | None = None, **changes: Any
    ) -> Publishing:
        """A publisher process's working part, as a start of it with these settings makes it."""
        settings = self.settings.model_copy(update=changes)
        forges = forges or self.forges(tracer=tracer, **changes)
        return Publishing(
            self.database,
            forges,
            Connections(settings.keyring, configured_access(settings)),
            tracer or NoOpTracer(),
            record_window_ms=settings.record_window_ms,
        )

    async def work(self, **values: Any) -> Work:
        """Work under way on a pull request that the forge has, too."""
        work = await self.rows.work(await self.rows.change_request(**values))
        pull = work.change_request
        assert pull is not None
        fixture = PullFixture(number=pull.number, head_sha=pull.head_sha)
        self.forge.add_repo(pull.repo_name, fixture, repo_id=pull.repo_id)
        return work

    def repo_name(self, work: Work) -> str:
        """owner/name of the work's repository, which no other work has."""
        assert work.change_request is not None
        return work.change_request.repo_name

    def remote_reviews(self, work: Work) -> list[PostedReview]:
        """What the forge has in the end, read from its own API."""
        assert work.change_request is not None
        return self.forge.reviews(self.repo_name(work), work.change_request.number)

    def requests(self, work: Work) -> list[LoggedRequest]:
        """Writes of this work that reached the forge, each judged by GitHub's description."""
        path = f"/repos/{self.repo_name(work)}/"
        found = [one for one in self.forge.requests(method="POST") if one.raw_path.startswith(path)]
        for one in found:
            assert validate_request(one.method, one.raw_path, one.headers, one.body) == []
        return found

    async def attempts(self, work: Work) -> list[Row]:
        """The attempts in the ledger."""
        return await self.rows.all("publication_attempts", intent_id=work.intent_id)


def forge_settings(settings: PublisherSettings, forge: ScriptedForge) -> PublisherSettings:
    """Settings of a publisher that writes to this forge and waits little."""
    return settings.model_copy(
        update={
            "forge_url": forge.url,
            "forge_token": SecretStr(forge.token),
            "forge_connect_timeout_ms": 2000,
            "forge_read_timeout_ms": 5000,
        }
    )

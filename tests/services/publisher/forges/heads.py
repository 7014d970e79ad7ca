"""A way to ask each kind of forge for heads, all of them played by one scripted forge."""

from dataclasses import dataclass

from opentelemetry.trace import NoOpTracer
from pydantic import SecretStr

from examples.scripted_forge.client import PullFixture, ScriptedForge
from services.publisher.forges.access import Access
from services.publisher.forges.connect import Forges
from services.publisher.heads.model import Asked, Head, HeadAnswer
from services.publisher.model import ForgeKind
from services.publisher.settings import PublisherSettings
from shared.schema.states import ChangeRequestState

HEAD = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
NUMBER = 7
API = {
    ForgeKind.GITHUB: "",
    ForgeKind.GITLAB: "/api/v4",
    ForgeKind.GITEA: "/api/v1",
    ForgeKind.FORGEJO: "/api/v1",
}
PAGES = {
    ForgeKind.GITHUB: "pull",
    ForgeKind.GITLAB: "-/merge_requests",
    ForgeKind.GITEA: "pulls",
    ForgeKind.FORGEJO: "pulls",
}


@dataclass(frozen=True)
class Asking:
    """Asks one kind of forge for one change request."""

    kind: ForgeKind
    forge: ScriptedForge
    asked: Asked

    @property
    def url(self) -> str:
        """Base URL of its API."""
        return self.forge.url + API[self.kind]

    def reads_path(self) -> str:
        """Where the change request itself is read."""
        if self.kind is ForgeKind.GITLAB:
            return f"{API[self.kind]}/projects/{self.asked.repo_id}/merge_requests/{NUMBER}"
        return f"{API[self.kind]}/repos/{name_of(self.asked)}/pulls/{NUMBER}"

    async def head(self, *, attempts_max: int = 1, timeout_ms: int = 5000) -> HeadAnswer:
        """The answer to one question."""
        settings = PublisherSettings(
            database_url=SecretStr("postgresql://p:p@127.0.0.1/p"),
            forge_read_attempts_max=attempts_max,
            forge_read_timeout_ms=timeout_ms,
        )
        forges = Forges(settings, NoOpTracer())
        access = Access(
            forge=self.kind,
            instance="forge.test",
            base_url=self.url,
            token=self.forge.token,
        )
        try:
            return await forges.heads(access).find_head(self.asked)
        finally:
            await forges.close()

    def expected(self, full_name: str) -> Head:
        """What it says of an open change request as the fixture made it, dated apart."""
        return Head(
            repo_name=full_name,
            head_sha=HEAD,
            state=ChangeRequestState.OPEN,
            base_ref="master",
            draft=False,
            updated_at=None,
            url=f"{self.forge.url}/{full_name}/{PAGES[self.kind]}/{NUMBER}",
        )


def name_of(asked: Asked) -> str:
    """The name a repository is made with."""
    return f"Codertocat/Hello-{asked.repo_id}"


def made(forge: ScriptedForge, full_name: str, repo_id: int, **changes: object) -> None:
    """Makes the repository with its change request."""
    given = {"number": NUMBER, "head_sha": HEAD, **changes}
    forge.add_repo(full_name, PullFixture(**given), repo_id=repo_id)  # type: ignore[arg-type] # as the caller says

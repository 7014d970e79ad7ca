"""Every forge that the publisher can speak to."""

from typing import assert_never

import fencepost
from fencepost.errors import FieldInvalid
from opentelemetry.trace import Tracer

from services.publisher.forges.access import Access
from services.publisher.forges.gitea import gitea_heads
from services.publisher.forges.github import GitHub
from services.publisher.forges.github_heads import github_heads
from services.publisher.forges.gitlab import GitLabHeads
from services.publisher.forges.interface import Forge, Heads
from services.publisher.forges.reading import Reader
from services.publisher.forges.transport import Patience, Transport
from services.publisher.model import ForgeKind
from services.publisher.settings import PublisherSettings

GITHUB_ALONE = "must be of GitHub: reviews are written to no other forge so far"
USER_AGENT = f"fencepost-publisher/{fencepost.__version__}"


class Forges:
    """Speaks to each kind over one transport, with the access that a call brings."""

    def __init__(self, settings: PublisherSettings, tracer: Tracer) -> None:
        patience = Patience(
            connect_timeout_ms=settings.forge_connect_timeout_ms,
            write_timeout_ms=settings.forge_write_timeout_ms,
            read_timeout_ms=settings.forge_read_timeout_ms,
            call_timeout_ms=settings.forge_call_timeout_ms,
            answer_limit_bytes=settings.forge_answer_limit_bytes,
        )
        self._transport = Transport(patience, tracer)
        self._reader = Reader(self._transport, attempts_max=settings.forge_read_attempts_max)
        self._strict_uncertain = settings.strict_uncertain

    def writing(self, access: Access) -> Forge:
        """Writes to this instance; raises FieldInvalid where no review can be written yet."""
        if access.forge is not ForgeKind.GITHUB:
            raise FieldInvalid(violations=[("fence.key", GITHUB_ALONE)])
        return GitHub(
            self._transport,
            access,
            user_agent=USER_AGENT,
            strict_uncertain=self._strict_uncertain,
        )

    def heads(self, access: Access) -> Heads:
        """Finds heads at this instance."""
        match access.forge:
            case ForgeKind.GITHUB:
                return github_heads(self._reader, access, user_agent=USER_AGENT)
            case ForgeKind.GITLAB:
                return GitLabHeads(self._reader, access, user_agent=USER_AGENT)
            case ForgeKind.GITEA | ForgeKind.FORGEJO:
                return gitea_heads(self._reader, access, user_agent=USER_AGENT)
            case _:
                assert_never(access.forge)

    async def close(self) -> None:
        """Ends what is still open."""
        await self._transport.close()


def configured_access(settings: PublisherSettings) -> Access:
    """The forge that the settings name, with its credential; nothing is sent yet."""
    token = settings.forge_token
    return Access(
        forge=ForgeKind.GITHUB,
        instance=settings.forge_instance,
        base_url=settings.forge_url,
        token="" if token is None else token.get_secret_value(),
    )

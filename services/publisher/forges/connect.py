"""Makes the forge that the settings name."""

import fencepost
from opentelemetry.trace import Tracer

from services.publisher.forges.github import GitHub
from services.publisher.forges.interface import Forge
from services.publisher.forges.transport import Patience, Transport
from services.publisher.settings import PublisherSettings


def connected_forge(settings: PublisherSettings, tracer: Tracer) -> Forge:
    """The forge with its credential; nothing is sent yet."""
    patience = Patience(
        connect_timeout_ms=settings.forge_connect_timeout_ms,
        write_timeout_ms=settings.forge_write_timeout_ms,
        read_timeout_ms=settings.forge_read_timeout_ms,
        call_timeout_ms=settings.forge_call_timeout_ms,
        answer_limit_bytes=settings.forge_answer_limit_bytes,
    )
    token = settings.forge_token
    return GitHub(
        Transport(settings.forge_url, patience, tracer),
        instance=settings.forge_instance,
        token="" if token is None else token.get_secret_value(),
        user_agent=f"fencepost-publisher/{fencepost.__version__}",
        strict_uncertain=settings.strict_uncertain,
    )

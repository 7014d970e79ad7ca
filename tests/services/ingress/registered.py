"""Endpoints that stand in the database before ingress starts, their secrets sealed."""

from typing import Any

import psycopg

from services.ingress.endpoints import rules
from services.ingress.endpoints.model import Endpoint
from shared.sealing import Keyring, SealedFor, new_key_line

KEYRING_TEXT = new_key_line("test")
KEYRING = Keyring.parse(KEYRING_TEXT)
FAR = "2999-01-01T00:00:00Z"

_ENDPOINT = """
    INSERT INTO fencepost.endpoints (
        tenant, name, forge, forge_instance, proof, routes, bot_ids, trusted_ids, wanted_events,
        drafts, body_limit_bytes
    )
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_SECRET = """
    INSERT INTO fencepost.endpoint_secrets (
        tenant, endpoint, version, sealing_key_id, wrapped_key, ciphertext, live_until
    )
    VALUES (%s, %s, %s, %s, %s, %s, %s)
"""


def register(owner_url: str, endpoint: Endpoint) -> None:
    """Stores the endpoint as it would have been declared."""
    with psycopg.connect(owner_url, autocommit=True) as owner:
        store(owner, endpoint)


def store(owner: "psycopg.Connection[Any]", endpoint: Endpoint) -> None:
    """The same where a connection is open."""
    owner.execute(
        _ENDPOINT,
        [
            endpoint.tenant,
            endpoint.name,
            endpoint.forge.value,
            endpoint.forge_instance,
            endpoint.proof.value,
            rules.routes_text(endpoint.routes),
            sorted(endpoint.bot_ids),
            sorted(endpoint.trusted_ids),
            sorted(endpoint.wanted_events),
            endpoint.drafts.value,
            endpoint.body_limit_bytes,
        ],
    )
    for age, secret in enumerate(endpoint.secrets):
        version = len(endpoint.secrets) - age
        bound_to = SealedFor(
            purpose="webhook secret", tenant=endpoint.tenant, owner=endpoint.name, version=version
        )
        sealed = KEYRING.seal(secret, bound_to)
        values = [sealed.key_id, sealed.wrapped_key, sealed.ciphertext, FAR if age else None]
        owner.execute(_SECRET, [endpoint.tenant, endpoint.name, version, *values])

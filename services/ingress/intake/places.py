"""Change requests as statements take them: their identity, and what of them is unwanted."""

from collections.abc import Iterable
from dataclasses import dataclass

KeyParts = tuple[str, str, int, int]
"""Tenant, forge instance, repository id and number: identity of a change request."""


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Generations of a change request that are no longer wanted (I9)."""

    change_request: KeyParts
    superseded_through: int
    abandoned_through: int


def columns(keys: Iterable[KeyParts]) -> dict[str, list[object]]:
    """Change requests as the arrays that statements take."""
    listed = list(keys)
    return {
        "tenants": [tenant for tenant, _, _, _ in listed],
        "forge_instances": [instance for _, instance, _, _ in listed],
        "repo_ids": [repo_id for _, _, repo_id, _ in listed],
        "numbers": [number for _, _, _, number in listed],
    }

"""An endpoint as intake sees it, and every one that this ingress serves."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from fencepost.errors import ResourceNotFound

from services.ingress.settings import IngressSettings


class DraftPolicy(StrEnum):
    """What is done with a change request while it is a draft."""

    IGNORE = "ignore"
    TAKE = "take"


@dataclass(frozen=True, kw_only=True)
class Route:
    """Where work of matching deliveries goes: one bot with one purpose, on one queue.

    Empty `repo_ids` match every repo. `commands` are those of comments that it takes; `checks` says
    whether it takes work of merge groups and of checks to run again.
    """

    action: str
    queue: str
    repo_ids: frozenset[int] = frozenset()
    commands: frozenset[str] = frozenset()
    checks: bool = False


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One source: whose it is, how it signs, what is taken from it, and where its work goes.

    `secrets` are the live ones, newest first. `bot_ids` are numeric accounts and apps of the
    suite's own on that forge (I8). Empty `wanted_events`: every one that can make work.
    """

    name: str
    tenant: str
    forge: str
    forge_instance: str
    proof: str
    secrets: tuple[bytes, ...] = field(repr=False)
    routes: tuple[Route, ...]
    bot_ids: frozenset[int] = frozenset()
    wanted_events: frozenset[str] = frozenset()
    drafts: DraftPolicy = DraftPolicy.IGNORE
    body_limit_bytes: int

    def routes_of(self, repo_id: int) -> tuple[Route, ...]:
        """The routes of a repo, by its number; names of repos change and decide nothing (I5)."""
        return tuple(
            route for route in self.routes if not route.repo_ids or repo_id in route.repo_ids
        )


class Endpoints:
    """Every endpoint that this ingress serves."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._endpoints = tuple(endpoints)

    @classmethod
    def of(cls, settings: IngressSettings) -> Self:
        """The one endpoint of the settings, or none."""
        secrets = (settings.endpoint_secret, settings.endpoint_secret_previous)
        endpoint = Endpoint(
            name=settings.endpoint_name,
            tenant=settings.endpoint_tenant,
            forge=settings.endpoint_forge,
            forge_instance=settings.endpoint_forge_instance,
            proof=settings.endpoint_proof,
            secrets=tuple(each.get_secret_value().encode() for each in secrets if each),
            routes=(Route(action=settings.endpoint_action, queue=settings.endpoint_queue),),
            body_limit_bytes=settings.body_limit_bytes,
        )
        return cls([endpoint] if endpoint.name else [])

    def of_forge(self, forge: str, name: str | None) -> Endpoint:
        """The endpoint that a webhook names; without a name the forge's only one.

        Raises ResourceNotFound.
        """
        found = [
            each
            for each in self._endpoints
            if each.forge == forge and (name is None or each.name == name)
        ]
        if len(found) != 1:
            raise ResourceNotFound(kind="endpoint", name=forge if name is None else name)
        return found[0]

    def of_tenant(self, tenant: str, name: str) -> Endpoint:
        """The tenant's endpoint of this name; another tenant's is ResourceNotFound (X8)."""
        for each in self._endpoints:
            if (each.tenant, each.name) == (tenant, name):
                return each
        raise ResourceNotFound(kind="endpoint", name=name)

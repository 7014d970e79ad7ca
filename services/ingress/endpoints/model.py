"""What an endpoint is: plain values that every room of ingress may know."""

from dataclasses import dataclass, field
from enum import StrEnum


class ForgeKind(StrEnum):
    """What kind of forge sends."""

    FORGEJO = "forgejo"
    GITEA = "gitea"
    GITHUB = "github"
    GITLAB = "gitlab"


class Proof(StrEnum):
    """What proves who sent: a signature over the body, or GitLab's token, which is none (I5)."""

    SIGNATURE = "signature"
    TOKEN = "token"


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

    def meets(self, other: "Route") -> bool:
        """Whether there is a repo that both are for."""
        return not (self.repo_ids and other.repo_ids and self.repo_ids.isdisjoint(other.repo_ids))


@dataclass(frozen=True, kw_only=True)
class Declared:
    """An endpoint as its owner declares it, without secrets.

    `bot_ids` are numeric accounts and apps of the suite's own on that forge (I8); `trusted_ids`
    are accounts that may command whatever a body shows of them. Empty `wanted_events`: every one
    that can make work. `body_limit_bytes` 0: the service's own limit.
    """

    name: str
    forge: ForgeKind
    forge_instance: str
    proof: Proof
    routes: tuple[Route, ...]
    bot_ids: frozenset[int] = frozenset()
    trusted_ids: frozenset[int] = frozenset()
    wanted_events: frozenset[str] = frozenset()
    drafts: DraftPolicy = DraftPolicy.IGNORE
    body_limit_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Endpoint(Declared):
    """One source as intake sees it; `secrets` are the live ones, newest first."""

    tenant: str
    secrets: tuple[bytes, ...] = field(repr=False)

    def routes_of(self, repo_id: int) -> tuple[Route, ...]:
        """The routes of a repo, by its number; names of repos change and decide nothing (I5)."""
        return tuple(
            route for route in self.routes if not route.repo_ids or repo_id in route.repo_ids
        )

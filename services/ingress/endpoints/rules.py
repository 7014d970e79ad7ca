"""What may be declared of an endpoint, and what a change of it amounts to."""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

from services.ingress.endpoints.model import Declared, ForgeKind, Proof, Route

GITHUB_HOST = "github.com"

_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class Change:
    """One field that a declaration changes, as text; what there is not is empty."""

    field: str
    before: str
    after: str


Problem = tuple[str, str]
"""A field's path in the request, and what it must be."""


def problems(declared: Declared, *, limit_bytes: int) -> list[Problem]:
    """What no single field's rule can say; `limit_bytes` is the service's own."""
    return [
        *_forge_problems(declared, limit_bytes),
        *_trust_problems(declared),
        *_route_problems(declared.routes),
    ]


def change_problems(before: Declared, after: Declared) -> Iterator[Problem]:
    """What may not change: every key of the endpoint's work would be another."""
    for name in ("forge", "forge_instance"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield f"endpoint.{name}", f"is {old} and cannot change: make another endpoint"


def tenant_problem(tenant: str) -> str | None:
    """What is wrong with a tenant's name, which becomes a part of an address."""
    if _TENANT.fullmatch(tenant):
        return None
    return "must be up to 100 letters, digits, '.', '_' and '-', a letter or digit first"


def changes(before: Declared | None, after: Declared) -> list[Change]:
    """Every field that differs, in the order in which fields are declared."""
    old = {} if before is None else _facts(before)
    new = _facts(after)
    names = [*new, *(name for name in old if name not in new)]
    return [
        Change(field=name, before=old.get(name, ""), after=new.get(name, ""))
        for name in names
        if old.get(name, "") != new.get(name, "")
    ]


def routes_text(routes: Sequence[Route]) -> str:
    """Routes as they are stored: JSON, the same for equal routes."""
    return json.dumps([_plain(asdict(route)) for route in routes])


def routes_in(text: str) -> tuple[Route, ...]:
    """Routes that were stored so; what an older version did not know is as if it were not said."""
    return tuple(
        Route(
            action=each["action"],
            queue=each["queue"],
            repo_ids=frozenset(each.get("repo_ids", ())),
            commands=frozenset(each.get("commands", ())),
            checks=each.get("checks", False),
        )
        for each in json.loads(text)
    )


def page_token(tenant: str, name: str) -> str:
    """Where the next page begins: after this endpoint, opaque to callers."""
    return base64.urlsafe_b64encode(f"{tenant} {name}".encode()).decode()


def page_position(token: str) -> tuple[str, str] | None:
    """The last endpoint before the page; None for a token that was never given out."""
    try:
        text = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except ValueError:
        return None
    tenant, separator, name = text.rpartition(" ")
    return (tenant, name) if separator and "\x00" not in text else None


def _forge_problems(declared: Declared, limit_bytes: int) -> Iterator[Problem]:
    if declared.proof is Proof.TOKEN and declared.forge is not ForgeKind.GITLAB:
        yield "endpoint.proof", "may be a token for gitlab alone, which sends one"
    if declared.forge is not ForgeKind.GITHUB and declared.forge_instance == GITHUB_HOST:
        yield "endpoint.forge_instance", f"must name the host of your {declared.forge}"
    if declared.body_limit_bytes > limit_bytes:
        yield "endpoint.body_limit_bytes", f"must be at most the service's own, {limit_bytes}"


def _trust_problems(declared: Declared) -> Iterator[Problem]:
    for account_id in sorted(declared.trusted_ids & declared.bot_ids):
        yield "endpoint.trusted_ids", f"must not name {account_id}, which is one of bot_ids"


def _route_problems(routes: Sequence[Route]) -> Iterator[Problem]:
    """One delivery makes at most one intent per action (I13)."""
    for (_, one), (number, other) in combinations(enumerate(routes), 2):
        if one.action == other.action and one.meets(other):
            sentence = f"is the action of another route for the same repo: {other.action}"
            yield f"endpoint.routes[{number}].action", sentence


def _facts(declared: Declared) -> dict[str, str]:
    """Each field as text, those of a route one by one."""
    facts: dict[str, str] = {}
    for name in Declared.__dataclass_fields__:
        value = getattr(declared, name)
        if name != "routes":
            facts[name] = _text(value)
            continue
        for number, route in enumerate(declared.routes):
            facts |= {f"routes[{number}].{each}": _text(v) for each, v in vars(route).items()}
    return {name: text for name, text in facts.items() if text}


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case frozenset():
            return ", ".join(str(each) for each in sorted(value))
        case _:
            return str(value)


def _plain(fields: Mapping[str, object]) -> dict[str, object]:
    return {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value in fields.items()
    }

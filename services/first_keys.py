"""The keys that a new installation begins with."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.credentials import Credential, parse, secret_digest

ALL_SCOPES = (
    "deliveries_write",
    "deliveries_read",
    "intents_write",
    "intents_read",
    "work",
    "publish",
    "wake",
    "status_read",
    "keys_admin",
    "endpoints_admin",
    "connections_admin",
    "heads_read",
    "operate",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstKey:
    """One key to begin with; no tenant means that it belongs to none and may serve all.

    `variable` is the environment variable that its holder reads it from.
    """

    label: str
    variable: str
    tenant: str | None
    scopes: tuple[str, ...]
    purpose: str


def first_keys(tenant: str) -> tuple[FirstKey, ...]:
    """The set, in the order in which it is made: each of its labels once per installation."""
    return (
        FirstKey(
            label="operator",
            variable="OPERATOR_API_KEY",
            tenant=None,
            scopes=ALL_SCOPES,
            purpose="for people: everything, for any tenant; makes all further keys",
        ),
        FirstKey(
            label="ingress",
            variable="INGRESS_API_KEY",
            tenant=None,
            scopes=("wake",),
            purpose="for ingress: tells the dispatcher that work waits",
        ),
        FirstKey(
            label="dispatcher",
            variable="DISPATCHER_API_KEY",
            tenant=None,
            scopes=("heads_read",),
            purpose="for the dispatcher: asks the publisher for heads of change requests",
        ),
        FirstKey(
            label=f"worker:{tenant}",
            variable="WORKER_API_KEY",
            tenant=tenant,
            scopes=("work", "publish"),
            purpose=f"for the bots of {tenant}: takes work, keeps checkpoints, publishes",
        ),
    )


def as_text(keys: Sequence[tuple[FirstKey, Credential]]) -> str:
    """The credentials as a file of environment variables."""
    lines = ["# Fencepost's first keys. Whoever reads them can use them."]
    for key, credential in keys:
        lines += [f"# {key.label}: {key.purpose}", f"{key.variable}={credential.text}"]
    return "\n".join(lines) + "\n"


def read_text(text: str) -> dict[str, str]:
    """The credentials in such a file, by variable."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
    return {variable: credential for variable, credential in pairs if parse(credential)}


def digests(text: str) -> dict[str, bytes]:
    """Digests of the secrets in such a file, by key id."""
    parts = [parse(credential) for credential in read_text(text).values()]
    return {part[0]: secret_digest(part[1]) for part in parts if part}

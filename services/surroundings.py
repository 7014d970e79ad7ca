"""What each service of the suite is told: its own addresses, database, key, and nothing of others.

A variable that the user has set wins over what the suite would choose.
"""

import random
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from fencepost.environment import VARIABLES

from shared.schema.grants import SERVICES, Service

HOST = "127.0.0.1"
GRPC_PORTS: Mapping[Service, int] = MappingProxyType(
    {"ingress": 7101, "dispatcher": 7102, "publisher": 7103, "watchdog": 7104}
)
ADMIN_PORTS: Mapping[Service, int] = MappingProxyType(
    {"ingress": 7111, "dispatcher": 7112, "publisher": 7113, "watchdog": 7114}
)
WEBHOOK_PORT = 7100

SEALING: tuple[Service, ...] = ("ingress", "publisher")
"""Services that store secrets, each sealed under keys of its own (K1)."""
PORTS = (*GRPC_PORTS.values(), *ADMIN_PORTS.values(), WEBHOOK_PORT)

FREE_PORTS = range(15_000, 32_000)
"""Below the ports that Linux gives to outgoing connections, which would be taken at any time."""

PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        "DEDUPE_TTL_SECONDS",
    }
)
PASSED_ON_PREFIXES = ("LC_", "PYTHON", "OTEL_", "FENCEPOST_")
KEPT_BACK = frozenset(variable.name for variable in VARIABLES)
"""A person's or a bot's, credential included, and no service's."""


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where the suite listens, host:port each."""

    grpc: Mapping[Service, str]
    admin: Mapping[Service, str]
    webhooks: str


def choose_addresses(environment: Mapping[str, str], *, ports: Sequence[int] = PORTS) -> Addresses:
    """The addresses that the user chose; else on these ports, which stand in the order of PORTS."""
    chosen = dict(zip(PORTS, ports, strict=True))

    def address(variable: str, port: int) -> str:
        return environment.get(variable) or f"{HOST}:{chosen[port]}"

    return Addresses(
        grpc={s: address(f"{s.upper()}_GRPC_ADDRESS", GRPC_PORTS[s]) for s in SERVICES},
        admin={s: address(f"{s.upper()}_ADMIN_ADDRESS", ADMIN_PORTS[s]) for s in SERVICES},
        webhooks=address("INGRESS_WEBHOOK_ADDRESS", WEBHOOK_PORT),
    )


def environment_of(
    service: Service,
    environment: Mapping[str, str],
    *,
    addresses: Addresses,
    database_url: str,
    api_key: str | None,
    sealing_keys: str | None,
) -> dict[str, str]:
    """The whole environment of one service."""
    prefix = f"{service.upper()}_"
    given = {n: v for n, v in environment.items() if _is_passed_on(n) or n.startswith(prefix)}
    chosen = {
        f"{prefix}GRPC_ADDRESS": addresses.grpc[service],
        f"{prefix}ADMIN_ADDRESS": addresses.admin[service],
    }
    if service == "ingress":
        chosen["INGRESS_WEBHOOK_ADDRESS"] = addresses.webhooks
        chosen["INGRESS_DISPATCHER_ADDRESS"] = addresses.grpc["dispatcher"]
    if service == "dispatcher":
        chosen["DISPATCHER_PUBLISHER_ADDRESS"] = addresses.grpc["publisher"]
    secrets = {f"{prefix}DATABASE_URL": database_url}
    if api_key is not None:
        secrets[f"{prefix}API_KEY"] = api_key
    if sealing_keys is not None:
        secrets[f"{prefix}SEALING_KEYS"] = sealing_keys
    unset = {n: v for n, v in secrets.items() if not (given.get(n) or given.get(f"{n}_FILE"))}
    return {**chosen, **given, **unset}


def _is_passed_on(name: str) -> bool:
    return name in PASSED_ON or (name.startswith(PASSED_ON_PREFIXES) and name not in KEPT_BACK)


@contextmanager
def reserved_ports() -> Iterator[Sequence[int]]:
    """As many free ports as PORTS, which no other suite is given while the block runs.

    A port is held by a socket that never listens. It was bound alone, so nobody else had the port;
    from then on it shares with those who ask to, as the services do when they listen.
    """
    candidates = iter(random.SystemRandom().sample(FREE_PORTS, k=len(FREE_PORTS)))
    with ExitStack() as held:
        found: list[int] = []
        while len(found) < len(PORTS):
            holder = held.enter_context(socket.socket())
            port = next(candidates)
            try:
                holder.bind((HOST, port))
            except OSError:
                continue
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.append(port)
        yield found

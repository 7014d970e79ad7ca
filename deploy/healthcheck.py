"""Whether what this container runs may be sent work: exit 0 or 1, the problem on the output.

It runs every few seconds, so it imports little: python -I -S deploy/healthcheck.py
"""

import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

ADMIN_PORTS = {"ingress": 7111, "dispatcher": 7112, "publisher": 7113, "watchdog": 7114}
TIMEOUT_S = 2.0
ANSWER_BYTES_MAX = 4096
FIRST_PROCESS = Path("/proc/1/cmdline")
EVERY_HOST = ("0.0.0.0", "[::]", "::")


def services_of(command_line: str) -> list[str]:
    """The service that this command runs; all of them when it runs the suite."""
    found = re.search(r"services\.(\w+)", command_line)
    return [found[1]] if found and found[1] in ADMIN_PORTS else list(ADMIN_PORTS)


def admin_address(service: str, environment: Mapping[str, str]) -> tuple[str, int]:
    """Where the service's admin port is reached from inside the container."""
    given = environment.get(f"{service.upper()}_ADMIN_ADDRESS")
    if not given:
        return "127.0.0.1", ADMIN_PORTS[service]
    host, _, port = given.rpartition(":")
    return ("127.0.0.1" if host in EVERY_HOST else host.strip("[]")), int(port)


def problem_at(address: tuple[str, int]) -> str:
    """What speaks against sending work there; empty when nothing does."""
    try:
        with socket.create_connection(address, TIMEOUT_S) as connection:
            connection.sendall(b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(ANSWER_BYTES_MAX), b""))
    except OSError as error:
        return f"no answer ({error})"
    head, _, body = answer.decode(errors="replace").partition("\r\n\r\n")
    status = head.split(" ", 2)[1:2]
    return "" if status == ["200"] else body[:ANSWER_BYTES_MAX] or "no HTTP answer"


def main() -> int:
    """Asks what the first process of the container runs."""
    command_line = FIRST_PROCESS.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    environment = os.environ  # noqa: TID251 - settings would import too much for a probe
    problems = [
        f"{service}: {problem}"
        for service in services_of(command_line)
        if (problem := problem_at(admin_address(service, environment)))
    ]
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

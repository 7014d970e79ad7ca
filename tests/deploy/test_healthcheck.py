"""The probe of the image looks at what the container runs, and at nothing else."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from deploy import healthcheck
from services.surroundings import ADMIN_PORTS
from shared.embedded.server import free_port
from tests.architecture.tree import REPOSITORY


@contextmanager
def answering(status: int, body: bytes = b"{}") -> Iterator[tuple[str, int]]:
    """An admin port that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/readyz"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield ("127.0.0.1", server.server_port)
        server.shutdown()
        thread.join()


def test_the_ports_are_those_of_the_suite() -> None:
    assert dict(ADMIN_PORTS) == healthcheck.ADMIN_PORTS


@pytest.mark.parametrize(
    ("command_line", "services"),
    [
        ("python -m services.publisher ", ["publisher"]),
        ("/sbin/docker-init -- python -m services.ingress", ["ingress"]),
        ("python -m services --data-folder /var/lib/fencepost", list(ADMIN_PORTS)),
        ("python -m services.unknown", list(ADMIN_PORTS)),
    ],
)
def test_it_asks_what_the_container_runs(command_line: str, services: list[str]) -> None:
    assert healthcheck.services_of(command_line) == services


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (None, ("127.0.0.1", 7112)),
        ("0.0.0.0:9000", ("127.0.0.1", 9000)),
        ("[::]:9000", ("127.0.0.1", 9000)),
        ("10.0.0.7:9000", ("10.0.0.7", 9000)),
        ("[fd00::7]:9000", ("fd00::7", 9000)),
    ],
)
def test_it_follows_the_services_own_setting(given: str | None, address: tuple[str, int]) -> None:
    environment = {"DISPATCHER_ADMIN_ADDRESS": given} if given else {}
    assert healthcheck.admin_address("dispatcher", environment) == address


def test_a_service_that_is_ready_has_no_problem() -> None:
    with answering(200) as address:
        assert healthcheck.problem_at(address) == ""


def test_a_service_that_is_not_ready_says_why() -> None:
    with answering(503, b'{"problems": {"database": "away"}}') as address:
        assert "away" in healthcheck.problem_at(address)


def test_a_service_that_does_not_listen_is_not_ready() -> None:
    assert "no answer" in healthcheck.problem_at(("127.0.0.1", free_port()))


def test_it_imports_next_to_nothing() -> None:
    code = "import deploy.healthcheck, sys; print(len(sys.modules))"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append('.'); {code}"]
    said = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert int(said.stdout) < 90

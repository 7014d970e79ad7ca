"""How `fencepost init` tries a token: at each forge's own address, and never beyond a redirect."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from fencepost.cli.connections import ForgeName
from fencepost.cli.init_connection import read_repo

TOKEN = "a-token"
BEARER, SCHEME_TOKEN = f"Bearer {TOKEN}", f"token {TOKEN}"


@dataclass
class Listener:
    """A forge that answers everything alike, and what it was asked."""

    url: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)


@contextmanager
def listening(status: int, headers: dict[str, str] | None = None) -> Iterator[Listener]:
    listener = Listener()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            listener.asked.append((self.path, self.headers["authorization"]))
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        listener.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield listener
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("forge", "path", "authorization"),
    [
        (ForgeName.GITHUB, "/repos/octo/gears", BEARER),
        (ForgeName.GITLAB, "/projects/octo%2Fgears", BEARER),
        (ForgeName.FORGEJO, "/repos/octo/gears", SCHEME_TOKEN),
        (ForgeName.GITEA, "/repos/octo/gears", SCHEME_TOKEN),
    ],
)
def test_each_forge_is_asked_as_it_wants_to_be(
    forge: ForgeName, path: str, authorization: str
) -> None:
    with listening(200) as listener:
        read = read_repo(forge, listener.url, "octo/gears", TOKEN)
    assert read.is_good
    assert listener.asked == [(path, authorization)]


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, "answered 401: it refuses the token"),
        (403, "answered 403: it refuses the token"),
        (404, "answered 404: it shows no octo/gears to this token"),
        (500, "answered 500: it did not say"),
    ],
)
def test_a_forge_that_does_not_show_it_is_told_in_a_sentence(status: int, sentence: str) -> None:
    with listening(status) as listener:
        read = read_repo(ForgeName.GITHUB, listener.url, "octo/gears", TOKEN)
    assert not read.is_good
    assert sentence in read.sentence


@pytest.mark.guarantee("K2")
def test_a_redirect_takes_the_token_nowhere() -> None:
    with (
        listening(200) as other,
        listening(302, {"location": f"{other.url}/repos/octo/gears"}) as listener,
    ):
        read = read_repo(ForgeName.GITHUB, listener.url, "octo/gears", TOKEN)
    assert (read.status, other.asked) == (302, [])


def test_a_forge_that_does_not_answer_is_told() -> None:
    read = read_repo(ForgeName.GITHUB, "http://127.0.0.1:9", "octo/gears", TOKEN)
    assert (read.status, "http://127.0.0.1:9 does not answer" in read.sentence) == (0, True)

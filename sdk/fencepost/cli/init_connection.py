"""The connection that `fencepost init` makes, and whether its token reads the repository."""

import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import quote

from fencepost.cli import connections, connections_output
from fencepost.cli.connection import Connection
from fencepost.cli.connections import ForgeName
from fencepost.cli.endpoints import read_secret

if TYPE_CHECKING:
    from email.message import Message

    from fencepost.publisher.v1 import connections_pb2 as pb

ANSWER_WITHIN_S: Final = 10
QUESTION: Final = "Token of the forge, for reviews (empty: later)"
NONE: Final = (
    "There is no connection to {host} yet: make one with "
    "`fencepost connections put {host} --tenant {tenant}`."
)
NOT_TRIED: Final = " Its token is tried with the first review."


@dataclass(frozen=True, kw_only=True)
class ForgeRead:
    """What the forge said when the repository was read with the token; status 0: nothing."""

    status: int
    sentence: str

    @property
    def is_good(self) -> bool:
        """Whether the token reads the repository."""
        return self.status == 200


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What was said of the connection, and whose it shall be."""

    tenant: str
    forge: ForgeName
    host: str
    repo: str
    base_url: str | None
    token_file: Path | None


@dataclass(frozen=True, kw_only=True)
class Made:
    """The connection as it stands, if there is one, and how its token was tried, if it was."""

    wish: Wish
    connection: "pb.Connection | None"
    read: ForgeRead | None

    @property
    def sentence(self) -> str:
        """All of it for people."""
        if self.connection is None:
            return NONE.format(host=self.wish.host, tenant=self.wish.tenant)
        tried = NOT_TRIED if self.read is None else f"\n{self.read.sentence}"
        return connections_output.sentence_of(self.connection) + tried


def make(connection: Connection, wish: Wish) -> Made:
    """Puts the connection where a token is given, and reads the repository with it."""
    stands = connections.find(connection, wish.host)
    token = _token(connection, wish, is_new=stands is None)
    if not token:
        return Made(wish=wish, connection=stands, read=None)
    request = connections.declared(wish.host, stands, forge=wish.forge, base_url=wish.base_url)
    request.token = token
    put = connections.put_it(connection, request).connection
    read = read_repo(wish.forge, put.base_url, wish.repo, token)
    return Made(wish=wish, connection=put, read=read)


def _token(connection: Connection, wish: Wish, *, is_new: bool) -> str:
    if wish.token_file is not None:
        return read_secret(wish.token_file)
    if is_new and not connection.as_json and sys.stdin.isatty():
        return connections.ask_token(QUESTION, may_be_empty=True)
    return ""


def read_repo(forge: ForgeName, base_url: str, repo: str, token: str) -> ForgeRead:
    """Asks the forge for the repository, as it would be asked with this token."""
    path = (
        f"/projects/{quote(repo, safe='')}"
        if forge is ForgeName.GITLAB
        else f"/repos/{quote(repo)}"
    )
    scheme = "token" if forge in (ForgeName.FORGEJO, ForgeName.GITEA) else "Bearer"
    headers = {"authorization": f"{scheme} {token}", "user-agent": "fencepost-init"}
    request = urllib.request.Request(base_url + path, headers=headers)
    try:
        with _OPENER.open(request, timeout=ANSWER_WITHIN_S) as answer:
            status = int(answer.status)
    except urllib.error.HTTPError as refused:
        status = refused.code
    except (OSError, HTTPException, ValueError) as error:
        return ForgeRead(
            status=0, sentence=f"From here {base_url} does not answer ({error}): is it right?"
        )
    return ForgeRead(status=status, sentence=_sentence(status, base_url, repo))


def _sentence(status: int, base_url: str, repo: str) -> str:
    match status:
        case 200:
            return f"Its token reads {repo}; whether it may write, the first review shows."
        case 401 | 403:
            why = "refuses the token: put another one"
        case 404:
            why = f"shows no {repo} to this token: is its name right, and may the token read it?"
        case _:
            why = f"did not say whether the token reads {repo}: is this the address of its API?"
    return f"{base_url} answered {status}: it {why}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer: the token goes nowhere else."""

    def redirect_request(
        self,
        req: urllib.request.Request,  # noqa: ARG002  (the library's signature)
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: "Message",  # noqa: ARG002
        newurl: str,  # noqa: ARG002
    ) -> None:
        """Follows none."""
        return


_OPENER: Final = urllib.request.build_opener(_NoRedirects)

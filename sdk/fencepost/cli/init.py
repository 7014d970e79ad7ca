"""`fencepost init`: from nothing to an endpoint that takes webhooks in and a way to answer them."""

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from fencepost.cli import connections_output
from fencepost.cli import endpoints_output as output
from fencepost.cli.calls import EXIT_REFUSED, EXIT_UNAVAILABLE, call
from fencepost.cli.connection import Connection, connected, to_publisher, usage_error
from fencepost.cli.connections import BaseUrl, ForgeName, TokenFile
from fencepost.cli.endpoints import declared, put
from fencepost.cli.options import OtherPublisherAddress
from fencepost.cli.output import plain, show_json
from fencepost.environment import INGRESS

if TYPE_CHECKING:
    from fencepost.cli.init_connection import Made
    from fencepost.cli.init_delivery import Answer
    from fencepost.ingress.v1 import endpoints_pb2 as pb

HELP = """Set up an endpoint and a connection for a repository of yours, and try both.

Asks what is not said. Makes a secret and a file that declares the endpoint, both in this folder and
only where they are missing; declares it; puts the connection with the forge's token and reads the
repository with it; says what to enter on the forge; and sends a signed test delivery. Safe to run
again.
"""
HOSTS: Final = {"github": "github.com", "gitlab": "gitlab.com"}
PAGES: Final = {
    "github": "https://{host}/{repo}/settings/hooks/new",
    "gitlab": "https://{host}/{repo}/-/hooks",
    "forgejo": "https://{host}/{repo}/settings/hooks/forgejo/new",
    "gitea": "https://{host}/{repo}/settings/hooks/gitea/new",
}
REPO: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
GITLAB_REPO: Final = re.compile(r"[\w.-]+(/[\w.-]+)+", re.ASCII)
URL_LETTERS: Final = re.compile(r"[!-~]+")
SECRET_BYTES: Final = 32
FILE: Final = """\
[[endpoint]]
name = "{name}"
forge = "{forge}"
forge_instance = "{host}"
proof = "{proof}"
secret_file = "{secret_file}"

[[endpoint.route]]
action = "review"
queue = "reviews"
"""
WHAT_TO_ENTER: Final = """\
Open       {page}
Address    {url}
Secret     the content of {secret_file}
Type       application/json"""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be set up, and the files that it stands in."""

    forge: ForgeName
    host: str
    repo: str
    name: str
    door: str

    @property
    def file(self) -> Path:
        """What declares the endpoint."""
        return Path(f"{self.name}.toml")

    @property
    def secret_file(self) -> Path:
        """What holds the webhook secret."""
        return Path(f"{self.name}.secret")

    @property
    def page(self) -> str:
        """Where a webhook is added on the forge."""
        return PAGES[self.forge].format(host=self.host, repo=self.repo)


@connected(INGRESS)
def init(
    connection: Connection,
    *,
    forge: Annotated[ForgeName, typer.Argument(metavar="FORGE", help=f"{', '.join(ForgeName)}.")],
    repo: Annotated[
        str | None, typer.Option("--repo", metavar="OWNER/NAME", help="The repository.")
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="HOST", help="Where the forge is.")
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name of the endpoint, and of its files.")
    ] = "main",
    door: Annotated[
        str | None,
        typer.Option("--door", metavar="URL", help="Where the forge reaches the webhook door."),
    ] = None,
    base_url: BaseUrl = None,
    token_file: TokenFile = None,
    publisher: OtherPublisherAddress = None,
) -> None:
    """Sets up an endpoint and a connection."""
    from fencepost.cli.init_connection import Wish, make  # noqa: PLC0415  (keeps --help quick)
    from fencepost.cli.init_delivery import deliver  # noqa: PLC0415  (as above)

    ask = _Asker(may_ask=not connection.as_json)
    plan = Plan(
        forge=forge,
        host=ask("--host", host or HOSTS.get(forge), "Host of the forge"),
        repo=ask("--repo", repo, "Repository, as owner/name").strip("/"),
        name=name,
        door=ask("--door", door, "Address of the webhook door", "http://127.0.0.1:7100"),
    )
    _require_forms(plan, base_url)
    made = _make_files(plan)
    [request] = _only(declared(plan.file), plan)
    [checked] = call(connection, lambda channel: put(channel, [request], validate_only=True))
    wish = Wish(
        tenant=checked.endpoint.tenant,
        forge=forge,
        host=plan.host,
        repo=plan.repo,
        base_url=base_url,
        token_file=token_file,
    )
    # First the connection: its publisher may refuse it, and no call checks it beforehand.
    way = make(to_publisher(connection, publisher), wish)
    [answer] = call(connection, lambda channel: put(channel, [request], validate_only=False))
    proof = output.word_of("proof", request.endpoint.proof)
    url = plan.door.rstrip("/") + answer.endpoint.webhook_path
    tried = deliver(url, forge=forge, proof=proof, secret=request.secret)
    result = Result(plan=plan, made=made, put=answer, url=url, tried=tried, way=way)
    if connection.as_json:
        show_json(_document(result))
    else:
        _show(result)
    for each in (way.read, tried):
        if each is not None and not each.is_good:
            raise typer.Exit(EXIT_REFUSED if each.status else EXIT_UNAVAILABLE)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What was made, and how it was tried."""

    plan: Plan
    made: list[Path]
    put: "pb.PutEndpointResponse"
    url: str
    tried: "Answer"
    way: "Made"


@dataclass(frozen=True, kw_only=True)
class _Asker:
    """Asks for what was not said, where somebody can be asked."""

    may_ask: bool

    def __call__(
        self, option: str, given: str | None, question: str, default: str | None = None
    ) -> str:
        if given is not None:
            return given
        if not self.may_ask:
            return default or usage_error(f"Nobody can be asked here: say {option}.")
        return str(typer.prompt(question, default=default))


def _require_forms(plan: Plan, base_url: str | None) -> None:
    """Ends with a usage error, before anything is made, where a form cannot be right."""
    for option, url in (("--door", plan.door), ("--base-url", base_url)):
        if url is not None and not _is_http(url):
            usage_error(f"{option} must be http://HOST or https://HOST, not {url!a}.")
    nested = plan.forge is ForgeName.GITLAB
    if not (GITLAB_REPO if nested else REPO).fullmatch(plan.repo):
        form = "GROUP/…/NAME" if nested else "OWNER/NAME"
        usage_error(f"--repo must be {form}, not {plan.repo!a}.")


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and is_whole and URL_LETTERS.fullmatch(url) is not None


def _make_files(plan: Plan) -> list[Path]:
    """Makes what is missing of the two; which."""
    secret = secrets.token_urlsafe(SECRET_BYTES)
    text = FILE.format(
        name=plan.name,
        forge=plan.forge,
        host=plan.host,
        proof="token" if plan.forge == "gitlab" else "signature",
        secret_file=plan.secret_file,
    )
    return [
        path
        for path, content in ((plan.secret_file, f"{secret}\n"), (plan.file, text))
        if _is_made(path, content)
    ]


def _is_made(path: Path, content: str) -> bool:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        usage_error(f"{path} cannot be made: {error.strerror}.")
    with os.fdopen(handle, "w") as file:
        file.write(content)
    return True


def _only(requests: "list[pb.PutEndpointRequest]", plan: Plan) -> "list[pb.PutEndpointRequest]":
    """The one endpoint of the file, which must be the one that is meant."""
    [first, *others] = requests
    forge = output.word_of("forge", first.endpoint.forge)
    if others or (first.endpoint.name, forge) != (plan.name, plan.forge) or not first.secret:
        usage_error(
            f"{plan.file} declares something else than {plan.name} of {plan.forge} with a secret: "
            "choose another --name, or use `fencepost endpoints apply`."
        )
    return [first]


def _show(result: Result) -> None:
    plan, put = result.plan, result.put
    for path in result.made:
        print(plain(f"Made {path}, which only you may read."))
    what = "declared" if put.created else "changed" if put.changes else "as declared"
    print(plain(f"Endpoint {put.endpoint.name} of tenant {put.endpoint.tenant} is {what}."))
    print(plain(result.way.sentence))
    print(plain("\nOn the forge, add a webhook:\n"))
    where = {"page": plan.page, "url": result.url, "secret_file": plan.secret_file}
    print(plain(WHAT_TO_ENTER.format(**where)))
    print(plain(f"\n{result.tried.sentence}."))


def _document(result: Result) -> dict[str, object]:
    plan, way, tried = result.plan, result.way, result.tried
    stands = way.connection
    return {
        "endpoint": output.as_document(result.put.endpoint),
        "created": result.put.created,
        "webhook_url": result.url,
        "secret_file": str(plan.secret_file),
        "file": str(plan.file),
        "page": plan.page,
        "connection": None if stands is None else connections_output.as_document(stands),
        "forge_read": None if way.read is None else vars(way.read),
        "test_delivery": {"status": tried.status or None, "answer": tried.said},
    }

"""Who plays: the suite, a scripted forge, a trace receiver and a bot, each a process of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.channel import ChannelSettings, connect
from fencepost.endpoint_files import read_file
from fencepost.ingress.v1.endpoints_pb2_grpc import EndpointServiceStub

from examples.scripted_forge.client import PullFixture, ScriptedForge
from examples.trace_receiver.client import TraceReceiver
from services.suite import Suite

ROOT = Path(__file__).resolve().parents[2]
PAYLOAD = ROOT / "tests/payloads/github/pull_request.opened.json"
BOT = "examples.demo_bot"

TENANT = "demo"
ENDPOINT = "demo"
WEBHOOK_SECRET = "a secret for this demonstration alone"
ENDPOINTS = f"""
[[endpoint]]
name = "{ENDPOINT}"
forge = "github"
secret_file = "webhook.secret"

[[endpoint.route]]
action = "container-dispatch"
queue = "reviews"
"""
STOP_TIMEOUT_S = 15.0
LAST_WORDS = 25


@dataclass(frozen=True, kw_only=True)
class Pull:
    """What the demonstration reads of the payload to prepare the forge."""

    body: bytes
    repo_name: str
    repo_id: int
    number: int
    head_sha: str
    base_sha: str
    url: str

    @classmethod
    def of(cls, body: bytes) -> "Pull":
        """Reads a GitHub `pull_request` payload."""
        payload: dict[str, Any] = json.loads(body)
        pull = payload["pull_request"]
        return cls(
            body=body,
            repo_name=payload["repository"]["full_name"],
            repo_id=payload["repository"]["id"],
            number=payload["number"],
            head_sha=pull["head"]["sha"],
            base_sha=pull["base"]["sha"],
            url=pull["html_url"],
        )


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Everybody on stage."""

    suite: Suite
    forge: ScriptedForge
    receiver: TraceReceiver
    bot: "subprocess.Popen[bytes]"
    bot_log: Path
    pull: Pull

    def let_go(self) -> None:
        """Sends the bot SIGUSR1, for bots that wait for it."""
        self.bot.send_signal(signal.SIGUSR1)

    def must_be_alive(self) -> None:
        """Raises SuiteError or ChildProcessError when somebody has left by himself."""
        self.suite.check()
        if (code := self.bot.poll()) is not None:
            words = self.bot_log.read_text(errors="replace").splitlines()[-LAST_WORDS:]
            raise ChildProcessError("\n".join([f"The bot ended with code {code}:", *words]))


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Everybody but the bot."""

    folder: Path
    suite: Suite
    forge: ScriptedForge
    receiver: TraceReceiver

    @contextmanager
    def cast(self, pull: Pull, *, bot: str = BOT) -> Iterator[Cast]:
        """Puts the pull request on the forge and starts the bot, which is stopped at the end."""
        fixture = PullFixture(
            number=pull.number, head_sha=pull.head_sha, base_sha=pull.base_sha, state="open"
        )
        self.forge.add_repo(pull.repo_name, fixture, repo_id=pull.repo_id)
        bot_log = self.folder / "bot.log"
        process = _start_bot(bot, self.suite, bot_log)
        try:
            yield Cast(
                suite=self.suite,
                forge=self.forge,
                receiver=self.receiver,
                bot=process,
                bot_log=bot_log,
                pull=pull,
            )
        finally:
            _stop(process)


@contextmanager
def prepared_stage(folder: Path) -> Iterator[Stage]:
    """Starts a forge, a trace receiver and the suite on free ports; stops all at the end."""
    with ExitStack() as stage:
        forge = stage.enter_context(ScriptedForge.start(folder / "forge"))
        receiver = stage.enter_context(TraceReceiver.start())
        suite = stage.enter_context(
            Suite(
                folder / "suite",
                environment=_environment(folder, forge, receiver),
                tenant=TENANT,
                free_ports=True,
            )
        )
        _declare_endpoint(folder, suite)
        yield Stage(folder=folder, suite=suite, forge=forge, receiver=receiver)


def last_words(folder: Path) -> str:
    """The end of every log below the folder: of the services, the database and the bot."""
    ends = ((log, log.read_text(errors="replace")) for log in sorted(folder.rglob("*.log")))
    return "\n".join(
        line
        for log, text in ends
        for line in (f"The end of {log.name}:", *text.splitlines()[-LAST_WORDS:])
    )


def _environment(folder: Path, forge: ScriptedForge, receiver: TraceReceiver) -> dict[str, str]:
    inherited = os.environ  # noqa: TID251 - handed on, not read
    return {
        "PATH": inherited.get("PATH", ""),
        "HOME": inherited.get("HOME", str(folder)),
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.otlp_endpoint,
        "PUBLISHER_FORGE_URL": forge.url,
        "PUBLISHER_FORGE_TOKEN_FILE": _secret(folder / "forge.token", forge.token),
    }


def _declare_endpoint(folder: Path, suite: Suite) -> None:
    """Registers where the webhook comes from, as `fencepost endpoints apply` does."""
    file = folder / "endpoints.toml"
    file.write_text(ENDPOINTS)
    _secret(folder / "webhook.secret", WEBHOOK_SECRET)
    reach = ChannelSettings(
        target=suite.addresses.grpc["ingress"],
        api_key=suite.credentials["OPERATOR_API_KEY"],
        tenant=TENANT,
    )

    async def put() -> None:
        async with connect(reach) as channel:
            stub: Any = EndpointServiceStub(channel)
            for request in read_file(file):
                await stub.PutEndpoint(request)

    asyncio.run(put())


def _secret(file: Path, value: str) -> str:
    file.touch(mode=0o600)
    file.write_text(value)
    return str(file)


def _start_bot(module: str, suite: Suite, log: Path) -> "subprocess.Popen[bytes]":
    environment = {
        **os.environ,  # noqa: TID251 - handed on, not read
        "FENCEPOST_DISPATCHER": suite.addresses.grpc["dispatcher"],
        "FENCEPOST_PUBLISHER": suite.addresses.grpc["publisher"],
        "FENCEPOST_API_KEY": suite.credentials["WORKER_API_KEY"],
    }
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

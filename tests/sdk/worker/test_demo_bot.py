"""Goal: the bot of the README works as shown: one review, whatever is repeated.

Method: the bot as its own process on a real payload; dispatcher, publisher and forge are real.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fencepost import Run
from fencepost.errors import FencepostError

from examples.scripted_forge.client import PullFixture, ScriptedForge
from tests.database_server import as_service
from tests.rows import ChangeRequest, Work
from tests.sdk.worker.bench import Bench, network_to
from tests.service_process import OWN_CODE, ROOT, ServiceProcess, service_process
from tests.waiting import until

PAYLOAD = (ROOT / "tests/payloads/github/pull_request.opened.json").read_bytes()
REMARKS = ["1 files, +1 -1.", "It has a description."]
STOPPED_WITHIN_S = 10.0


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedForge]:
    """A forge as a process of its own."""
    with ScriptedForge.start(tmp_path_factory.mktemp("forge")) as forge:
        yield forge


@pytest.fixture(scope="session")
def publisher(shared_url: str, forge: ScriptedForge) -> Iterator[ServiceProcess]:
    """A publisher that writes to it."""
    environment = {"PUBLISHER_FORGE_URL": forge.url, "PUBLISHER_FORGE_TOKEN": forge.token}
    url = as_service(shared_url, "publisher")
    with service_process("publisher", url, environment) as serving:
        yield serving


@dataclass(frozen=True)
class Stage:
    """A pull request that the forge has, and work on it with a real payload."""

    bench: Bench
    forge: ScriptedForge
    publisher: str

    async def work(self) -> Work:
        """Work on a pull request of its own, not placed yet."""
        pull = await self.bench.rows.change_request()
        fixture = PullFixture(number=pull.number, head_sha=pull.head_sha)
        self.forge.add_repo(pull.repo_name, fixture)
        return await self.bench.rows.intent(pull, payload=PAYLOAD)

    def reviews(self, work: Work) -> list[list[str]]:
        """The reviews that the forge has, each by its visible lines."""
        pull = _pull(work)
        bodies = [review.body for review in self.forge.reviews(pull.repo_name, pull.number)]
        return [[line for line in body.splitlines() if line and line[0] != "<"] for body in bodies]

    def posts(self, work: Work) -> int:
        """How many times the forge was asked to post one."""
        path = f"/repos/{_pull(work).repo_name}/"
        requests = self.forge.requests(method="POST")
        return len([request for request in requests if request.raw_path.startswith(path)])

    @contextmanager
    def bot(self, tmp_path: Path) -> Iterator[None]:
        """The bot, which must end well when it is told to stop."""
        log = tmp_path / "bot.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "examples.demo_bot"],
                cwd=ROOT,
                env={
                    **OWN_CODE,
                    "FENCEPOST_DISPATCHER": self.bench.dispatcher,
                    "FENCEPOST_PUBLISHER": self.publisher,
                    "FENCEPOST_API_KEY": self.bench.api_key,
                },
                stdout=output,
                stderr=output,
            )
        try:
            yield
            process.terminate()
            assert process.wait(STOPPED_WITHIN_S) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


def _pull(work: Work) -> ChangeRequest:
    assert work.change_request is not None
    return work.change_request


@pytest.fixture
def stage(bench: Bench, forge: ScriptedForge, publisher: ServiceProcess) -> Stage:
    """Everybody."""
    return Stage(bench, forge, publisher.grpc)


@pytest.mark.guarantee("P1")
async def test_a_real_pull_request_gets_one_review(stage: Stage, tmp_path: Path) -> None:
    bench, work = stage.bench, await stage.work()
    await bench.rows.ready(work)
    with stage.bot(tmp_path):
        await bench.settled(work)
    assert stage.reviews(work) == [REMARKS]
    flushes = [(flush["phase"], flush["final"]) for flush in await bench.flushes(work)]
    assert flushes == [("analyse", False), ("publish", False), ("publish", True)]
    attempt = await bench.rows.one("publication_attempts", tenant=work.tenant)
    assert attempt["checkpoint_version"] == 3
    run = await bench.rows.one("runs", tenant=work.tenant)
    assert run["analysis_status"] == "succeeded"
    assert json.loads(run["state"]) == {"remarks": REMARKS}
    session = await bench.rows.one("sessions", tenant=work.tenant)
    assert session["labels"] == {"service.name": "demo-bot"}


@pytest.mark.guarantee("C6")
@pytest.mark.parametrize("analysed", [True, False])
async def test_a_later_attempt_analyses_only_what_is_not_analysed_durably(
    stage: Stage, tmp_path: Path, analysed: bool
) -> None:
    bench, work = stage.bench, await stage.work()
    await bench.rows.run(
        work,
        state=json.dumps({"remarks": ["from the first attempt"]}).encode(),
        phase="publish",
        analysis_status="succeeded" if analysed else "running",
    )
    await bench.rows.ready(work, attempts=1)
    with stage.bot(tmp_path):
        await bench.settled(work)
    assert stage.reviews(work) == [["from the first attempt"] if analysed else REMARKS]
    assert len(await bench.flushes(work)) == (2 if analysed else 4)


@pytest.mark.guarantee("P3")
async def test_a_publication_whose_answer_was_lost_is_asked_for_once(stage: Stage) -> None:
    bench, work = stage.bench, await stage.work()
    await bench.rows.ready(work)
    answers: list[object] = []

    async def handler(run: Run) -> None:
        try:
            answers.append((await run.publish_review("the lost one")).duplicate)
        except FencepostError as unknown:
            answers.append(unknown.code.name)
            raise

    async with network_to(stage.publisher) as (network, address):
        network.trap(b"the lost one", "keep the answer")
        async with bench.working(handler, publisher=address):
            await until(lambda: stage.reviews(work), what="the review to be posted")
            assert answers == []
            network.reset()
            await bench.settled(work)
    assert answers == ["UNAVAILABLE", True]
    assert (stage.posts(work), len(stage.reviews(work))) == (1, 1)
    first, second = await bench.outcomes(work, 2)
    assert (first["outcome"], second["outcome"]) == ("failed", "completed")

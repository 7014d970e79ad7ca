"""One webhook becomes one review, played against containers by an outsider with a bot."""

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from fencepost.channel import ChannelSettings, connect
from fencepost.watchdog.v1 import watchdog_pb2
from fencepost.watchdog.v1.watchdog_pb2_grpc import WatchdogServiceStub

from examples.demo.cast import PAYLOAD, Pull
from tests.containers.deployment import REPOSITORY
from tests.signing import github_signature
from tests.waiting import until_sync

PUBLISHED_WITHIN_S = 30.0
ENDS_WITHIN_S = 15.0
PULL = Pull.of(PAYLOAD.read_bytes())


def post(
    webhooks: str, secret: str, delivery_id: str, *, endpoint: str = "default"
) -> tuple[int, str]:
    """Posts the payload as GitHub would; the answer's status and outcome."""
    answer = httpx.post(
        f"http://{webhooks}/webhooks/github/{endpoint}",
        content=PULL.body,
        headers={
            "content-type": "application/json",
            "x-github-event": "pull_request",
            "x-github-delivery": delivery_id,
            "x-hub-signature-256": github_signature(secret.encode(), PULL.body),
        },
        timeout=10.0,
        trust_env=False,
    )
    return answer.status_code, answer.json().get("outcome", "")


@contextmanager
def bot(*, dispatcher: str, publisher: str, api_key: str, log: Path) -> Iterator[None]:
    """The demo bot as a process of this machine, outside of the containers."""
    environment = {
        **os.environ,  # noqa: TID251 - handed on, not read
        "FENCEPOST_DISPATCHER": dispatcher,
        "FENCEPOST_PUBLISHER": publisher,
        "FENCEPOST_API_KEY": api_key,
    }
    command = [sys.executable, "-m", "examples.demo_bot"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=output, stderr=output
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(ENDS_WITHIN_S)


def timeline(watchdog: str, api_key: str, delivery_id: str) -> list[watchdog_pb2.TimelineEvent]:
    """The story of a delivery, from the watchdog."""

    async def ask() -> list[watchdog_pb2.TimelineEvent]:
        settings = ChannelSettings(target=watchdog, api_key=api_key, tenant="default")
        async with connect(settings) as channel:
            request = watchdog_pb2.GetTimelineRequest(delivery_id=delivery_id)
            return list((await WatchdogServiceStub(channel).GetTimeline(request)).events)

    return asyncio.run(ask())


def await_publication(
    watchdog: str, api_key: str, delivery_id: str
) -> list[watchdog_pb2.TimelineEvent]:
    """The story once the review is published and the work is settled."""

    def whole() -> list[watchdog_pb2.TimelineEvent]:
        events = timeline(watchdog, api_key, delivery_id)
        wanted = {"publication.succeeded", "intent.succeeded"}
        return events if wanted <= {event.kind for event in events} else []

    return until_sync(whole, deadline_s=PUBLISHED_WITHIN_S, what="the publication")


def new_delivery() -> str:
    """An id that was never used."""
    return str(uuid.uuid4())

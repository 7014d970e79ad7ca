"""What is played: a signed webhook, the wait for its publication, the same delivery again."""

import asyncio
import hashlib
import hmac
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import httpx
from fencepost.channel import Channel, ChannelSettings, connect
from fencepost.ingress.v1 import ingress_pb2
from fencepost.ingress.v1.ingress_pb2_grpc import IngressServiceStub
from fencepost.watchdog.v1 import watchdog_pb2
from fencepost.watchdog.v1.watchdog_pb2_grpc import WatchdogServiceStub

from examples.demo.cast import ENDPOINT, TENANT, WEBHOOK_SECRET, Cast
from examples.demo.trace import is_whole
from examples.scripted_forge.client import PostedReview
from examples.trace_receiver.client import ExportedSpan
from shared.schema.grants import Service

T = TypeVar("T")

TRACED_WITHIN_S = 10.0
LOOK_AGAIN_S = 0.05


class StepFailedError(Exception):
    """A step went otherwise than it must; the text says which and how."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What ingress answered a webhook with."""

    status: int
    outcome: str
    intent_ids: Sequence[int] = ()


@dataclass(kw_only=True)
class Story:
    """What was seen."""

    delivery_id: str
    review_key: str = ""
    first: Answer | None = None
    second: Answer | None = None
    seconds_to_publication: float = 0.0
    events: list[watchdog_pb2.TimelineEvent] = field(default_factory=list)
    reviews: list[PostedReview] = field(default_factory=list)
    spans: list[ExportedSpan] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[watchdog_pb2.TimelineEvent]:
        """Events of this kind, oldest first."""
        return [event for event in self.events if event.kind == kind]


@dataclass(frozen=True)
class Play:
    """The steps, in order; each raises StepFailedError with a sentence."""

    cast: Cast
    signed: bool = True
    within_s: float = 30.0
    traced_within_s: float = TRACED_WITHIN_S

    def perform(self) -> Story:
        """Plays all of it; an answer or a figure that is wrong is for `figures` to say."""
        story = Story(delivery_id=str(uuid.uuid4()))
        began_s = time.monotonic()
        story.first = self._post(story.delivery_id)
        if story.first.status != httpx.codes.ACCEPTED:
            raise StepFailedError(f"The webhook was answered {story.first.status}, not 202.")
        story.events = self._until(
            lambda: self._finished(story.delivery_id),
            within_s=self.within_s,
            what="the publication to be recorded and the work to be settled",
        )
        story.seconds_to_publication = time.monotonic() - began_s
        story.second = self._post(story.delivery_id)
        story.review_key = ask_key(self.cast, story.delivery_id)
        story.events = self._timeline(story.delivery_id)
        story.reviews = self.cast.forge.reviews(self.cast.pull.repo_name, self.cast.pull.number)
        story.spans = self._spans(story)
        return story

    def post_once(self) -> int:
        """Posts a new delivery and returns the intent that it made."""
        return self._post(str(uuid.uuid4())).intent_ids[0]

    def _post(self, delivery_id: str) -> Answer:
        body = self.cast.pull.body
        mac = hmac.new(WEBHOOK_SECRET.encode(), body, hashlib.sha256).hexdigest()
        response = httpx.post(
            f"http://{self.cast.suite.addresses.webhooks}/webhooks/github/{ENDPOINT}",
            content=body,
            headers={
                "content-type": "application/json",
                "x-github-event": "pull_request",
                "x-github-delivery": delivery_id,
                **({"x-hub-signature-256": f"sha256={mac}"} if self.signed else {}),
            },
            timeout=10.0,
            trust_env=False,
        )
        outcome = str(response.json().get("outcome", ""))
        return Answer(
            status=response.status_code,
            outcome=outcome.upper(),
            intent_ids=[int(intent_id) for intent_id in response.json().get("intents", [])],
        )

    def _finished(self, delivery_id: str) -> list[watchdog_pb2.TimelineEvent]:
        """The events once the work is published and settled; none before."""
        events = self._timeline(delivery_id)
        kinds = {event.kind for event in events}
        return events if {"publication.succeeded", "intent.succeeded"} <= kinds else []

    def _timeline(self, delivery_id: str) -> list[watchdog_pb2.TimelineEvent]:
        return list(ask_timeline(self.cast, delivery_id=delivery_id).events)

    def _spans(self, story: Story) -> list[ExportedSpan]:
        """The trace once it is whole; what there is of it when it has not become so in time."""
        trace_ids = {event.trace_id for event in story.of_kind("delivery.accepted")}
        if len(trace_ids) != 1 or not (trace_id := trace_ids.pop()):
            raise StepFailedError("The delivery has no trace.")
        give_up_s = time.monotonic() + self.traced_within_s
        while not is_whole(spans := self.cast.receiver.spans(trace_id)):
            self.cast.must_be_alive()
            if time.monotonic() > give_up_s:
                break
            threading.Event().wait(LOOK_AGAIN_S)
        return spans

    def _until(self, look: Callable[[], list[T]], *, within_s: float, what: str) -> list[T]:
        give_up_s = time.monotonic() + within_s
        while not (seen := look()):
            self.cast.must_be_alive()
            if time.monotonic() > give_up_s:
                raise StepFailedError(f"Waited {within_s:.0f} s in vain for {what}.")
            threading.Event().wait(LOOK_AGAIN_S)
        return seen


def ask_timeline(cast: Cast, **subject: str) -> watchdog_pb2.GetTimelineResponse:
    """The story of a delivery or a change request, from the watchdog."""

    async def ask() -> watchdog_pb2.GetTimelineResponse:
        async with _connected(cast, "watchdog") as channel:
            request = watchdog_pb2.GetTimelineRequest(**subject)
            return await WatchdogServiceStub(channel).GetTimeline(request)

    return asyncio.run(ask())


def ask_key(cast: Cast, delivery_id: str) -> str:
    """The key of a delivery's work as it is shown, from ingress."""

    async def ask() -> str:
        async with _connected(cast, "ingress") as channel:
            request = ingress_pb2.GetDeliveryRequest(endpoint=ENDPOINT, delivery_id=delivery_id)
            return (await IngressServiceStub(channel).GetDelivery(request)).delivery.key.label

    return asyncio.run(ask())


def _connected(cast: Cast, service: Service) -> Channel:
    settings = ChannelSettings(
        target=cast.suite.addresses.grpc[service],
        api_key=cast.suite.credentials["OPERATOR_API_KEY"],
        tenant=TENANT,
    )
    return connect(settings)


def show_timeline(cast: Cast, delivery_id: str) -> str:
    """The same as a person sees it, from the command line, but for what to ask next.

    The suite is gone by the time that somebody reads it.
    """
    shown = subprocess.run(
        [sys.executable, "-m", "fencepost.cli", "timeline", delivery_id],
        env={
            "PATH": "",
            "COLUMNS": "110",
            "FENCEPOST_WATCHDOG": cast.suite.addresses.grpc["watchdog"],
            "FENCEPOST_API_KEY": cast.suite.credentials["OPERATOR_API_KEY"],
            "FENCEPOST_TENANT": TENANT,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if shown.returncode != 0:
        raise StepFailedError(f"`fencepost timeline` failed: {shown.stderr.strip()}")
    story, _, _ = shown.stdout.partition("\nNext")
    return story

"""Submissions whose readings a test chooses: what forges' modules do not read yet, and senders."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from services.ingress.endpoints import Endpoint, Route
from services.ingress.intake.items import Item
from services.ingress.rules import AskKind, Reading, Sender, WorkAsked, admitted
from services.ingress.submissions import Taken
from services.ingress.take_operations import take_in
from tests.services.ingress.desk import Desk
from tests.services.ingress.pulls import NUMBER, REPO_ID, A, submission

REVIEW = Route(action="review-bot", queue="reviews", commands=frozenset({"review"}))
FIX = Route(action="fix-bot", queue="fixes", commands=frozenset({"fix", "review"}), checks=True)
"""Two bots on one repository."""


def asks(kind: AskKind, **said: Any) -> WorkAsked:
    """Work that is asked for in the repository of the bodies."""
    place = {"repo_id": REPO_ID, "repo_name": "octo/widgets", "url": ""}
    return WorkAsked(kind=kind, **{**place, "number": None, "head_sha": None, **said})


def command(*commands: str, comment_id: int = 9, **said: Any) -> WorkAsked:
    """A comment on the pull request of the bodies; it says review unless told otherwise."""
    named = {"number": NUMBER, "comment_id": comment_id, "commands": commands or ("review",)}
    return asks(AskKind.COMMAND, **{**named, **said})


def rerun(**said: Any) -> WorkAsked:
    """A check that a person runs again; its forge names no pull request unless said."""
    return asks(AskKind.RERUN, **{"head_sha": A, **said})


@dataclass(frozen=True)
class Asking:
    """A desk at an endpoint with routes for two bots."""

    desk: Desk
    endpoint: Endpoint

    @classmethod
    def at(cls, desk: Desk, **changes: Any) -> "Asking":
        """The desk's endpoint, changed."""
        return cls(desk, replace(desk.endpoint, **{"routes": (REVIEW, FIX), **changes}))

    def item(
        self, delivery_id: str, wish: WorkAsked, sender: Sender | None = None, **changes: Any
    ) -> Item:
        """A delivery that asks for work; its body is its own unless said."""
        body = changes.pop("body", delivery_id.encode())
        reading = Reading(
            event_action="", event=None, asks=wish, sender=sender, ignored=None, projection={}
        )
        reading = admitted(
            reading,
            "issue_comment",
            bot_ids=self.endpoint.bot_ids,
            trusted_ids=self.endpoint.trusted_ids,
            wanted_events=(),
        )
        sent = submission(self.endpoint, delivery_id, body, **changes)
        return Item(sent, reading, hashlib.sha256(body).digest())

    async def submit(self, *items: Item) -> list[Taken]:
        """Takes a list in of which none is refused."""
        taken = await self.desk.intake.database.run(lambda tx: take_in(tx, items, 60))
        outcomes = [each for each in taken.outcomes if isinstance(each, Taken)]
        assert len(outcomes) == len(items), taken.outcomes
        return outcomes

    async def tell(self, delivery_id: str, body: bytes, **changes: Any) -> Taken:
        """Takes in what a forge's module reads, at this endpoint."""
        sent = submission(self.endpoint, delivery_id, body, **changes)
        [outcome] = await self.desk.intake.submit([sent])
        assert isinstance(outcome, Taken), outcome
        return outcome

    async def take(self, delivery_id: str, wish: WorkAsked, sender: Sender | None = None) -> Taken:
        """The same for one that asks for work."""
        [outcome] = await self.submit(self.item(delivery_id, wish, sender))
        return outcome

    async def made(self) -> list[tuple[str, str, int]]:
        """Key without its instance, action and generation of every intent, in order."""
        return [
            (row["key"].partition("#")[2], row["action"], row["generation"])
            for row in sorted(await self.desk.rows.all("intents"), key=lambda row: row["intent_id"])
        ]

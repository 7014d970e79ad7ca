"""What people and bots ask for at a GitHub endpoint that takes commands and checks."""

import json
from dataclasses import replace
from typing import Any

from services.ingress.endpoints.model import Route
from tests.services.ingress.pulls import ENDPOINT
from tests.services.ingress.webhooks.posting import Door, signed

OUR_ACCOUNT, OUR_APP = 901, 29310
OUR_BOT = {"id": OUR_ACCOUNT, "login": "our-bot[bot]", "type": "Bot"}
MAINTAINER = {"id": 11, "login": "maint-a", "type": "User"}
CONTRIBUTOR = {"id": 22, "login": "contrib-b", "type": "User"}

ACTION = "review-bot"
ENDPOINT_OF_BOTS = replace(
    ENDPOINT,
    routes=(
        Route(
            action=ACTION,
            queue="reviews",
            commands=frozenset({"approve", "review"}),
            checks=True,
        ),
    ),
    bot_ids=frozenset({OUR_ACCOUNT, OUR_APP}),
)


def post(door: Door, event: str, document: dict[str, Any], delivery_id: str) -> tuple[int, str]:
    """The status of the answer, and why no work was made or whose it is already."""
    body = json.dumps(document, ensure_ascii=False).encode()
    headers = signed(body, x_github_event=event, x_github_delivery=delivery_id)
    answer = door.post(body, headers)
    told = answer.json()
    known = f"{told['outcome']} by {told['matched']}" if told.get("matched") != "none" else ""
    return answer.status_code, told["reason"] or known


def keys(door: Door) -> list[str]:
    """Every intent's key behind the repository's number, in order."""
    rows = door.owner.execute("SELECT key FROM fencepost.intents ORDER BY intent_id").fetchall()
    return [str(key).partition("#")[2] for (key,) in rows]

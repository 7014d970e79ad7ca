"""GitLab switches a hook off that is answered with errors: what is authentic never is.

Unwanted, unknown, repeated and too large ones; the absence of the database is told as 503. That an
endpoint which went silent is flagged is the watchdog's part.
"""

import json
from collections.abc import Callable
from time import monotonic

import httpx
import pytest

from shared.schema.grants import Service
from tests.cases.stored import intents
from tests.database_proxy import DatabaseProxy
from tests.services.ingress.gitlab_merges import merge, note_document
from tests.services.ingress.registered import register
from tests.services.ingress.served import Served, served_beside
from tests.services.ingress.webhooks.gitlab_posting import (
    MERGE_REQUEST,
    PATH,
    TOKEN,
    GitLab,
    endpoint,
)
from tests.services.ingress.webhooks.posting import LIMIT_BYTES, as_sent
from tests.waiting import until

ANSWER_WITHIN_S = 10.0
DELIVERIES = 200
EVENTS = ("Note Hook", "Job Hook", "Wiki Page Hook", "Of Tomorrow Hook", "Push Hook")


@pytest.mark.guarantee("I8")
def test_200_deliveries_that_nobody_wants_are_all_answered_200(merges: GitLab) -> None:
    body = json.dumps(note_document()).encode()
    large = body.ljust(LIMIT_BYTES + 1)
    statuses = []
    for n in range(DELIVERIES):
        sent = large if n % 10 == 9 else body
        event = EVENTS[n % len(EVENTS)]
        # Every second one repeats the id before it.
        answer = merges.post(sent, f"unwanted-{n // 2}", x_gitlab_event=event)
        statuses.append(answer.status_code)
    assert statuses == [200] * DELIVERIES
    assert intents(merges.door) == 0


@pytest.mark.guarantee("I1")
def test_a_repeat_is_known_by_its_id_whatever_its_event_is_called(merges: GitLab) -> None:
    first = merges.post(merge(), "repeated", x_gitlab_event_uuid="event 1").json()
    again = merges.post(merge(), "repeated", x_gitlab_event_uuid="event 2").json()
    assert (first["outcome"], again["outcome"]) == ("accepted", "duplicate")
    assert (again["matched"], again["intents"]) == ("delivery-id", first["intents"])


@pytest.mark.guarantee("I2")
async def test_without_the_database_it_is_told_to_come_again(
    owner_url: str, service_url: Callable[[Service], str]
) -> None:
    register(owner_url, endpoint("token"))
    body = merge()
    headers = as_sent({"x-gitlab-event": MERGE_REQUEST, "x-gitlab-token": TOKEN})

    async def post(ingress: Served) -> httpx.Response:
        async with httpx.AsyncClient(timeout=30) as client:
            url = f"http://{ingress.webhooks}{PATH}"
            return await client.post(url, content=body, headers=headers)

    async with DatabaseProxy.before(service_url("ingress")) as proxy:
        await proxy.cut()
        async with served_beside(proxy.url()) as ingress:
            began_s = monotonic()
            away = await post(ingress)
            assert monotonic() - began_s < ANSWER_WITHIN_S
            assert (away.status_code, "retry-after" in away.headers) == (503, True)
            await proxy.restore()

            async def taken_in() -> bool:
                return (await post(ingress)).status_code == 202

            await until(taken_in, what="the delivery to be taken in")

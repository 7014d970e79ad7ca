"""Bodies of every size: all that forges send is taken in, and what is over the limit is told.

What eight of the largest at once cost in memory is a figure of `make bench`.
"""

import gzip
from collections.abc import Iterator
from time import monotonic

import httpx
import pytest

from tests.cases.stored import bodies
from tests.database_server import DatabaseServer
from tests.services.ingress.pulls import pull
from tests.services.ingress.webhooks.posting import Door, opened, signed
from tests.services.ingress.webhooks.raw_posting import head_of, raw

KIB, MIB = 1024, 1024 * 1024
LIMIT_BYTES = 25 * MIB
ANSWER_WITHIN_S = 10.0
SIZES = {"90 KB": 90 * KIB, "300 KB": 300 * KIB, "4.2 MB": 4_404_019, "24.9 MB": 26_109_542}
OVER_BYTES = 26_319_258
"""25.1 MB."""


@pytest.fixture(scope="module")
def large(database_server: DatabaseServer) -> Iterator[Door]:
    """A running ingress with the limits that it ships with."""
    limits = {
        "INGRESS_BODY_LIMIT_BYTES": str(LIMIT_BYTES),
        "INGRESS_BODY_READ_TIMEOUT_MS": "10000",
    }
    with opened(database_server, limits) as door:
        door.client.timeout = httpx.Timeout(60)
        yield door


def body_of(size_bytes: int, number: int) -> bytes:
    """A pull request with so long a text in it."""
    start = pull(number=number)[:-1] + b', "text": "'
    return start.ljust(size_bytes - 2, b"x") + b'"}'


def refusals(door: Door, reason: str) -> float:
    """How many deliveries were refused for a reason, as operators see it."""
    shown = door.client.get(f"http://{door.ingress.admin}/metrics").text
    labels = f'delivery_refusals_total{{endpoint="github",reason="{reason}"}} '
    found = [line for line in shown.splitlines() if labels in line]
    return float(found[0].rpartition(" ")[2]) if found else 0.0


@pytest.mark.guarantee("I10")
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("name", SIZES)
def test_what_a_forge_sends_is_taken_in_byte_for_byte(
    large: Door, name: str, chunked: bool
) -> None:
    delivery_id = f"{name.replace(' ', '-')}-{chunked}"
    body = body_of(SIZES[name], 2 * list(SIZES).index(name) + chunked + 1)
    assert len(body) == SIZES[name]
    pieces = iter([body[at : at + MIB] for at in range(0, len(body), MIB)])
    began_s = monotonic()
    answer = large.client.post(
        f"http://{large.ingress.webhooks}/webhooks/github/github",
        content=pieces if chunked else body,
        headers=signed(body, x_github_delivery=delivery_id),
    )
    assert monotonic() - began_s < ANSWER_WITHIN_S
    assert answer.status_code == 202
    assert bodies(large, delivery_id) == [body]


@pytest.mark.guarantee("I10")
@pytest.mark.parametrize("chunked", [False, True])
def test_what_is_over_the_limit_is_refused_and_counted(large: Door, chunked: bool) -> None:
    before, written = refusals(large, "BODY_TOO_LARGE"), large.written()
    body = body_of(OVER_BYTES, 90)
    pieces = iter([body[at : at + MIB] for at in range(0, len(body), MIB)])
    answer = large.client.post(
        f"http://{large.ingress.webhooks}/webhooks/github/github",
        content=pieces if chunked else body,
        headers=signed(body, x_github_delivery="over"),
    )
    assert (answer.status_code, answer.json()["reason"]) == (413, "BODY_TOO_LARGE")
    assert "retry-after" not in answer.headers
    assert refusals(large, "BODY_TOO_LARGE") == before + 1
    assert large.written() == written


@pytest.mark.guarantee("I10")
def test_a_length_that_lies_is_not_believed(large: Door) -> None:
    written = large.written()
    body = body_of(90 * KIB, 91)
    close = "host: x\r\nconnection: close"
    too_long = head_of(body, OVER_BYTES).replace("host: x", close)
    assert raw(large, too_long, body, close=False).startswith(b"HTTP/1.1 413 ")
    too_short = head_of(body, len(body) - 1).replace("host: x", close)
    assert raw(large, too_short, body, close=True).startswith(b"HTTP/1.1 401 ")
    assert large.written() == written


@pytest.mark.guarantee("I10", "X4")
def test_a_compressed_body_is_refused_by_name_and_never_unpacked(large: Door) -> None:
    written = large.written()
    bomb = gzip.compress(bytes(64 * MIB))
    for encoding in ("gzip", "deflate", "gzip, identity"):
        headers = signed(bomb, content_encoding=encoding)
        answer = large.post(bomb, headers)
        assert (answer.status_code, answer.json()["field"]) == (400, "content-encoding")
    assert large.written() == written | {"deliveries": written["deliveries"] + 1}

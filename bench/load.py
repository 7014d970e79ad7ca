"""The load on ingress, from a process of its own: `python -m bench.load KIND …`.

The kinds do the same work over different doors; all deliveries are new and each makes work. Prints
one line of JSON: how many were answered, in how many seconds, and how long the answers took.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final

from fencepost.channel import ChannelSettings, connect
from fencepost.ingress.v1 import ingress_pb2 as pb
from fencepost.ingress.v1.ingress_pb2_grpc import IngressServiceStub
from fencepost.submitting import Submitter
from psycopg_pool import AsyncConnectionPool

from bench.payloads import EVENT, Delivery, deliveries
from bench.webhooks import Webhooks

BATCH_ITEMS: Final = 500
UNNEST_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS kept (
        seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL, body bytea NOT NULL
    )
"""
UNNEST_INSERT: Final = "INSERT INTO kept (id, body) SELECT * FROM unnest(%s::text[], %s::bytea[])"

Submit = Callable[[], Awaitable[int]]
"""Submits what comes next; returns how many deliveries that were."""


class NotAcceptedError(Exception):
    """A delivery made no work, so what was measured is not the work."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a load came to."""

    answered: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def per_s(self) -> float:
        """Deliveries a second."""
        return self.answered / self.seconds


async def closed(submit: Submit, *, in_flight: int, seconds: float) -> Measured:
    """So many callers, each submits again when it is answered."""
    took_s: list[float] = []
    answered = 0
    began_s = time.perf_counter()

    async def caller() -> None:
        nonlocal answered
        while (sent_s := time.perf_counter()) - began_s < seconds:
            # Added up after the wait: others add meanwhile.
            submitted = await submit()
            answered += submitted
            took_s.append(time.perf_counter() - sent_s)

    await asyncio.gather(*(caller() for _ in range(in_flight)))
    return _measured(answered, time.perf_counter() - began_s, took_s)


async def paced(submit: Submit, *, per_s: float, seconds: float) -> Measured:
    """A fixed rate, whatever the answers do: time counts from when a call was due."""
    took_s: list[float] = []
    began_s = time.perf_counter()

    async def call(due_s: float) -> None:
        await submit()
        took_s.append(time.perf_counter() - due_s)

    async with asyncio.TaskGroup() as calls:
        for number in range(int(per_s * seconds)):
            due_s = began_s + number / per_s
            if (early_s := due_s - time.perf_counter()) > 0:
                await asyncio.sleep(early_s)
            calls.create_task(call(due_s))
    return _measured(len(took_s), time.perf_counter() - began_s, took_s)


def _measured(answered: int, seconds: float, took_s: list[float]) -> Measured:
    ordered = sorted(took_s)
    return Measured(
        answered=answered,
        seconds=seconds,
        p50_ms=1000 * ordered[len(ordered) // 2],
        p99_ms=1000 * ordered[len(ordered) * 99 // 100],
    )


def request(delivery: Delivery, endpoint: str) -> pb.SubmitDeliveryRequest:
    """A delivery as a caller submits it."""
    return pb.SubmitDeliveryRequest(
        endpoint=endpoint, delivery_id=delivery.delivery_id, event=EVENT, body=delivery.body
    )


def must_be_accepted(response: pb.SubmitDeliveryResponse) -> None:
    """Raises NotAcceptedError."""
    if response.outcome != pb.DELIVERY_OUTCOME_ACCEPTED:
        raise NotAcceptedError(str(response))


@asynccontextmanager
async def unary(given: argparse.Namespace) -> AsyncIterator[Submit]:
    """SubmitDelivery, one delivery a call."""
    made = deliveries()
    async with connect(_settings(given)) as channel:
        stub: Any = IngressServiceStub(channel)

        async def submit() -> int:
            must_be_accepted(await stub.SubmitDelivery(request(next(made), given.endpoint)))
            return 1

        yield submit


@asynccontextmanager
async def webhook(given: argparse.Namespace) -> AsyncIterator[Submit]:
    """A signed webhook over HTTP, one delivery a request."""
    made = deliveries()
    path = f"/webhooks/github/{given.endpoint}"
    async with Webhooks.to(given.address, path, connections=given.in_flight) as webhooks:

        async def submit() -> int:
            await webhooks.post(next(made))
            return 1

        yield submit


@asynccontextmanager
async def sdk(given: argparse.Namespace) -> AsyncIterator[Submit]:
    """One delivery at a time through the SDK, which batches by itself."""
    made = deliveries()
    async with connect(_settings(given)) as channel, Submitter(channel) as submitter:

        async def submit() -> int:
            must_be_accepted(await submitter.submit(request(next(made), given.endpoint)))
            return 1

        yield submit


@asynccontextmanager
async def batch(given: argparse.Namespace) -> AsyncIterator[Submit]:
    """SubmitDeliveries, a list a call."""
    made = deliveries()
    async with connect(_settings(given)) as channel:
        stub: Any = IngressServiceStub(channel)

        async def submit() -> int:
            listed = [request(each, given.endpoint) for each in islice(made, BATCH_ITEMS)]
            response = await stub.SubmitDeliveries(pb.SubmitDeliveriesRequest(deliveries=listed))
            for result in response.results:
                must_be_accepted(result.taken)
            return len(listed)

        yield submit


@asynccontextmanager
async def unnest(given: argparse.Namespace) -> AsyncIterator[Submit]:
    """The least that keeps a list in PostgreSQL: one INSERT from arrays, of ids and bodies."""
    made = deliveries()
    async with AsyncConnectionPool(
        given.address, min_size=given.in_flight, max_size=given.in_flight, open=False
    ) as pool:
        async with pool.connection() as connection:
            await connection.execute(UNNEST_TABLE)

        async def submit() -> int:
            listed = list(islice(made, BATCH_ITEMS))
            arrays = [[each.delivery_id for each in listed], [each.body for each in listed]]
            async with pool.connection() as connection:
                await connection.execute(UNNEST_INSERT, arrays, binary=True)
            return len(listed)

        yield submit


KINDS: Mapping[str, Callable[[argparse.Namespace], Any]] = {
    "unary": unary,
    "webhook": webhook,
    "sdk": sdk,
    "batch": batch,
    "unnest": unnest,
}


def _settings(given: argparse.Namespace) -> ChannelSettings:
    return ChannelSettings(target=given.address, api_key=given.api_key, tenant=given.tenant)


async def measure(given: argparse.Namespace) -> Measured:
    """Warms up with one submission, then measures."""
    async with KINDS[given.kind](given) as submit:
        await submit()
        if given.per_s:
            return await paced(submit, per_s=given.per_s, seconds=given.seconds)
        return await closed(submit, in_flight=given.in_flight, seconds=given.seconds)


def arguments() -> argparse.ArgumentParser:
    """What the bench says to this process; the key comes in over standard input."""
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("address")
    parser.add_argument("--tenant", required=True)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--in-flight", type=int, default=1)
    parser.add_argument("--per-s", type=float, default=0.0)
    return parser


def main() -> None:
    """Measures once."""
    given = arguments().parse_args()
    given.api_key = sys.stdin.readline().strip()
    sys.stdout.write(json.dumps(asdict(asyncio.run(measure(given)))) + "\n")


if __name__ == "__main__":
    main()

"""How long a queue's retries wait."""

import pytest

from services.dispatcher.queues.rules import retry_delay_ms
from tests.services.dispatcher.desk import declared

LISTED = (120_000, 300_000, 900_000, 3_600_000)


@pytest.mark.parametrize(
    ("delays_ms", "cap_ms", "waits_ms"),
    [
        ((5_000,), None, [5_000] * 5),
        (LISTED, None, [*LISTED, 3_600_000]),
        ((1_000,), 6_000, [1_000, 2_000, 4_000, 6_000, 6_000]),
        ((10, 1_000), 3_000, [10, 1_000, 2_000, 3_000, 3_000]),
    ],
    ids=["fixed", "listed", "exponential", "listed_then_exponential"],
)
def test_waits_are_fixed_listed_or_growing_up_to_a_cap(
    delays_ms: tuple[int, ...], cap_ms: int | None, waits_ms: list[int]
) -> None:
    queue = declared(retry_delays_ms=delays_ms, retry_cap_ms=cap_ms)
    waits = [retry_delay_ms(queue, attempts=number, draw=0.5) for number in range(1, 6)]
    assert waits == waits_ms


def test_a_wait_that_grows_for_long_stays_at_its_cap() -> None:
    queue = declared(retry_delays_ms=(1,), retry_cap_ms=86_400_000)
    assert retry_delay_ms(queue, attempts=100, draw=0.0) == 86_400_000


@pytest.mark.parametrize(("draw", "wait_ms"), [(0.0, 10_000), (0.5, 9_000), (1.0, 8_000)])
def test_jitter_shortens_a_wait_by_its_part_at_most(draw: float, wait_ms: int) -> None:
    queue = declared(retry_delays_ms=(10_000,), retry_jitter_percent=20)
    assert retry_delay_ms(queue, attempts=1, draw=draw) == wait_ms

"""Bootstraps at once: one set of keys, and only who made it hands it over."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from services.bootstrap import Outcome, bootstrap
from services.first_keys import digests, first_keys, read_text
from services.handover import FileHandover
from shared.schema.grants import Service
from tests.races.forcing import blocking, forced

RUNS = 4

HELD = """
INSERT INTO fencepost.api_keys (key_id, label, scopes, secret_sha256, created_by)
VALUES ('blocker', 'operator', '{wake}', sha256(''), 'bootstrap')
"""


@pytest.mark.guarantee("X2")
async def test_of_two_bootstraps_one_makes_the_keys_and_hands_them_over(
    owner_url: str, service_url: Callable[[Service], str], tmp_path: Path
) -> None:
    url = service_url("watchdog")
    outputs = [tmp_path / "first.env", tmp_path / "second.env"]
    async with blocking(owner_url) as blocker:
        await blocker.hold(HELD)
        runs = [
            asyncio.to_thread(bootstrap, url, tenant="t", handover=FileHandover(output))
            for output in outputs
        ]
        ends = await forced(blocker, runs, on="api_keys", release=blocker.roll_back)

    outcomes = [end for end in ends if isinstance(end, Outcome)]
    assert len(outcomes) == 2, ends
    assert sorted(len(outcome.made) for outcome in outcomes) == [0, len(first_keys("t"))]
    assert sorted(len(outcome.present) for outcome in outcomes) == [0, len(first_keys("t"))]
    written = [output for output in outputs if output.exists()]
    assert written == [o for o, end in zip(outputs, outcomes, strict=True) if end.made]
    with psycopg.connect(owner_url) as connection:
        rows = connection.execute("SELECT key_id, secret_sha256 FROM fencepost.api_keys").fetchall()
    assert digests(written[0].read_text()) == dict(rows)


@pytest.mark.guarantee("X2")
async def test_of_bootstraps_that_continue_one_file_each_leaves_it_whole(
    owner_url: str, service_url: Callable[[Service], str], tmp_path: Path
) -> None:
    url, output = service_url("watchdog"), tmp_path / "keys.env"
    bootstrap(url, tenant="t", handover=FileHandover(output))
    with psycopg.connect(owner_url) as connection:
        connection.execute("DELETE FROM fencepost.api_keys WHERE label = 'operator'")
    lines = output.read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.startswith("OPERATOR"))
    output.write_text(kept)

    def run() -> tuple[Outcome, str]:
        outcome = bootstrap(url, tenant="t", handover=FileHandover(output))
        return outcome, output.read_text()

    async with blocking(owner_url) as blocker:
        await blocker.hold(HELD)
        runs = [asyncio.to_thread(run) for _ in range(RUNS)]
        ends = await forced(blocker, runs, on="api_keys", release=blocker.roll_back)

    found = [end for end in ends if isinstance(end, tuple)]
    assert len(found) == RUNS, ends
    assert sorted(outcome.made for outcome, _ in found) == [*[()] * (RUNS - 1), ("operator",)]
    (text,) = {text for _, text in found}
    assert text.startswith(kept)
    assert read_text(text).keys() == {key.variable for key in first_keys("t")}
    assert [digests(text)] * RUNS == [outcome.stored for outcome, _ in found]
    assert files(tmp_path) == [output]


def files(folder: Path) -> list[Path]:
    """What is in a folder."""
    return list(folder.iterdir())

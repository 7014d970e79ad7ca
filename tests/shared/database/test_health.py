"""An absence has one beginning and one end in the log, and each of its causes once."""

import pytest
from structlog.testing import capture_logs

from shared.database.health import Health


@pytest.fixture
def health() -> Health:
    """Of a database that is there."""
    return Health("db:5432/fencepost")


def test_an_absence_begins_and_ends_once_whoever_notices(health: Health) -> None:
    with capture_logs() as logs:
        for _ in range(3):
            health.note_away("Connection refused")
        for _ in range(3):
            health.note_back()
    assert [entry["event"] for entry in logs] == ["database away", "database back"]
    assert (logs[0]["why"], logs[0]["database"]) == ("Connection refused", "db:5432/fencepost")


def test_a_cause_that_changes_to_and_fro_is_told_once_and_begins_no_second_absence(
    health: Health,
) -> None:
    with capture_logs() as logs:
        for why in ("no connection within 500 ms", "Connection refused", "starting up") * 3:
            health.note_away(why)
        health.note_back()
    assert [(entry["event"], entry.get("why")) for entry in logs] == [
        ("database away", "no connection within 500 ms"),
        ("database still away", "Connection refused"),
        ("database still away", "starting up"),
        ("database back", None),
    ]


def test_the_next_absence_is_told_anew(health: Health) -> None:
    with capture_logs() as logs:
        for _ in range(2):
            health.note_away("Connection refused")
            health.note_back()
    assert [entry["event"] for entry in logs] == ["database away", "database back"] * 2


def test_a_database_that_was_there_does_not_come_back(health: Health) -> None:
    with capture_logs() as logs:
        health.note_back()
    assert logs == []

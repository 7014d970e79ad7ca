"""Since when a figure has been unobservable."""

from datetime import UTC, datetime, timedelta

from services.watchdog.status.rules import ABSENCES_MAX, Absences

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
READY = ("acme", "intents_ready")
DEAD = ("acme", "intents_dead")


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_the_first_miss_counts_until_the_figure_is_seen_again() -> None:
    absences = Absences()
    absences.told(NOON, elapsed_s=100)
    assert absences.missed(READY, elapsed_s=130) == after(30)
    assert absences.missed(READY, elapsed_s=190) == after(30)
    absences.seen(READY)
    assert absences.missed(READY, elapsed_s=200) == after(100)


def test_each_figure_of_each_tenant_is_missed_by_itself() -> None:
    absences = Absences()
    absences.told(NOON, elapsed_s=0)
    absences.missed(READY, elapsed_s=10)
    assert absences.missed(DEAD, elapsed_s=20) == after(20)
    assert absences.missed((None, "intents_ready"), elapsed_s=30) == after(30)
    absences.seen(DEAD)
    assert absences.missed(READY, elapsed_s=40) == after(10)


def test_no_time_is_made_up_before_the_database_told_one() -> None:
    absences = Absences()
    assert absences.missed(READY, elapsed_s=10) is None
    absences.told(NOON, elapsed_s=70)
    assert absences.missed(READY, elapsed_s=80) == after(-60)


def test_the_newest_word_of_the_database_counts() -> None:
    absences = Absences()
    absences.told(NOON, elapsed_s=0)
    absences.told(after(1000), elapsed_s=500)
    assert absences.missed(READY, elapsed_s=510) == after(1010)


def test_what_was_said_once_is_not_changed_by_a_clock_that_drifts() -> None:
    absences = Absences()
    absences.told(NOON, elapsed_s=0)
    assert absences.missed(READY, elapsed_s=10) == after(10)
    absences.told(after(21), elapsed_s=20)
    assert absences.missed(READY, elapsed_s=30) == after(10)


def test_what_is_remembered_has_a_bound() -> None:
    absences = Absences()
    absences.told(NOON, elapsed_s=0)
    for number in range(ABSENCES_MAX + 10):
        absences.missed((str(number), "intents_ready"), elapsed_s=1)
    assert absences.missed(("0", "intents_ready"), elapsed_s=9) == after(9)

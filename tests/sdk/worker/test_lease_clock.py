"""Goal: a lease is never believed to hold for longer than the dispatcher said."""

import time

import pytest
from fencepost.common.v1 import key_pb2
from fencepost.errors import LeaseLost
from fencepost.lease import LeaseClock, LeaseLapsed

FENCE = key_pb2.Fence(key="key", action="act", epoch=3, holder="holder")


def test_a_renewal_counts_from_when_it_was_asked_for() -> None:
    clock = LeaseClock(FENCE, 1.0)
    clock.renewed(asked_at_s=time.monotonic() - 40, lease_s=100.0)
    assert 59 < clock.remaining_s <= 60


def test_an_answer_that_comes_late_takes_nothing_away() -> None:
    clock = LeaseClock(FENCE, 100.0)
    clock.renewed(asked_at_s=time.monotonic() - 90, lease_s=100.0)
    assert 99 < clock.remaining_s <= 100


def test_what_is_lost_is_lost_for_good() -> None:
    clock = LeaseClock(FENCE, 100.0)
    clock.must_hold()
    clock.lose()
    clock.renewed(asked_at_s=time.monotonic(), lease_s=100.0)
    assert clock.remaining_s == 0
    with pytest.raises(LeaseLost, match="no longer yours at epoch 3") as lost:
        clock.must_hold()
    assert type(lost.value) is LeaseLapsed


def test_a_lease_without_time_is_not_held() -> None:
    with pytest.raises(LeaseLapsed):
        LeaseClock(FENCE, 0.0).must_hold()

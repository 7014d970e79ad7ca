"""What the door holds at once: places and bytes, all given back whatever happens."""

from contextlib import suppress

import pytest
from fencepost.errors import Overloaded

from services.ingress.webhooks.admission import Admission


def test_places_are_bounded_and_given_back() -> None:
    admission = Admission(requests_max=2, bytes_max=10)
    with admission.handling(), admission.handling():
        third = admission.handling()
        with pytest.raises(Overloaded):
            third.__enter__()
    with admission.handling(), admission.handling():
        assert admission.free_places == 0
    assert admission.free_places == 2


def test_bytes_are_shared_and_given_back() -> None:
    admission = Admission(requests_max=1, bytes_max=10)
    with admission.holding() as one, admission.holding() as other:
        one.grow(4)
        one.grow(2)
        other.grow(4)
        with pytest.raises(Overloaded):
            other.grow(1)
    assert admission.free_bytes == 10


def test_what_a_failing_request_held_is_given_back() -> None:
    admission = Admission(requests_max=1, bytes_max=10)
    with suppress(ValueError), admission.holding() as held, admission.handling():
        held.grow(10)
        raise ValueError
    assert (admission.free_places, admission.free_bytes) == (1, 10)

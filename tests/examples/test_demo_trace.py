"""What the demonstration's trace must tell: each step left out, doubled and misplaced in turn."""

from dataclasses import replace

import pytest

from examples.demo.trace import STEPS, TRACED, Step, is_whole, untold
from tests.examples.path_spans import a_span, path_spans

each_step = pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)


def sentence(step: Step) -> str:
    return f"the trace must have {step.wanted} {step.name} below {step.below or 'nothing'}"


def first_of(step: Step) -> int:
    """Where its first span stands."""
    names = [f"{span.name} of {span.service_name}" for span in path_spans()]
    return names.index(step.name)


def test_the_path_is_told() -> None:
    assert untold(path_spans()) == []
    assert is_whole(path_spans())


def test_spans_that_came_twice_are_told_once() -> None:
    assert untold([*path_spans(), *path_spans()]) == []


@each_step
def test_a_step_without_its_span_is_named(step: Step) -> None:
    spans = path_spans()
    del spans[first_of(step)]
    assert sentence(step) in untold(spans)


@each_step
def test_a_step_that_was_done_twice_is_named(step: Step) -> None:
    spans = path_spans()
    spans.append(replace(spans[first_of(step)], span_id="f" * 16))
    assert untold(spans) == [sentence(step)]


@each_step
def test_a_step_in_another_place_is_named(step: Step) -> None:
    spans = path_spans()
    # Below a step that none of the steps stands below.
    end = spans[-1] if step.name != STEPS[-1].name else spans[-2]
    spans[first_of(step)] = replace(spans[first_of(step)], parent_span_id=end.span_id)
    assert sentence(step) in untold(spans)


def test_a_call_between_two_steps_is_no_step() -> None:
    spans = path_spans()
    call = a_span(900, "Flush", "dispatcher", parent=spans[-1].parent_span_id)
    spans[-1] = replace(spans[-1], parent_span_id=call.span_id)
    assert untold([*spans, call]) == []


@pytest.mark.parametrize("service", sorted(TRACED))
def test_a_trace_without_a_service_is_not_whole(service: str) -> None:
    call = a_span(900, "call", "another", parent=path_spans()[-1].span_id)
    spans = [*path_spans(), call]
    assert is_whole(spans)
    assert not is_whole(
        [replace(s, service_name="another") if s.service_name == service else s for s in spans]
    )


def test_a_trace_without_a_parent_is_not_whole() -> None:
    assert not is_whole(path_spans()[1:])


def test_a_trace_without_the_end_of_a_flush_is_not_whole() -> None:
    sent = replace(path_spans()[first_of(STEPS[3])], span_id="f" * 16)
    assert not is_whole([*path_spans(), sent])

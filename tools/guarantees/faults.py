"""What can be wrong between the page and the markers, without running a test."""

from collections import Counter
from pathlib import Path

from tools.guarantees.catalogue import RACES, RULES
from tools.guarantees.document import (
    UNNAMED,
    Draft,
    MalformedPageError,
    Page,
    Promise,
    parse,
    render,
    with_proofs,
)
from tools.guarantees.markers import Markers, scan

PAGE = Path("docs/GUARANTEES.md")
REFRESH = "run `.venv/bin/python -m tools.guarantees --write`"


def faults(repository: Path) -> list[str]:
    """Every way in which page and markers disagree, one sentence each."""
    text = (repository / PAGE).read_text()
    try:
        page = parse(text)
    except MalformedPageError as error:
        return [str(error)]
    markers = scan(repository)
    found = [*_catalogue_faults(page), *_marker_faults(markers), *_promise_faults(page, markers)]
    current = render(with_proofs(page, markers.tests_by_rule, RULES))
    if not found and current != text:
        found.append(f"{PAGE} is not in its form, or its proofs are not up to date: {REFRESH}")
    return found


def _catalogue_faults(page: Page) -> list[str]:
    entries: tuple[Promise | Draft, ...] = (*page.promises, *page.drafts)
    listed = Counter(entry.rule for entry in entries)
    races = {entry.rule for entry in entries if entry.race}
    return [
        *(f"{rule} is missing from {PAGE}" for rule in RULES if rule not in listed),
        *(f"{rule} stands {times} times in {PAGE}" for rule, times in listed.items() if times > 1),
        *(f"{rule} is no rule" for rule in listed if rule not in RULES),
        *(f"{rule} is wrongly called a race, or not called one" for rule in sorted(races ^ RACES)),
    ]


def _marker_faults(markers: Markers) -> list[str]:
    return [
        *(f"{place}: a guarantee marker that is not read there" for place in markers.misplaced),
        *(
            f"{tests[0]} claims {rule}, which is no rule"
            for rule, tests in markers.tests_by_rule.items()
            if rule not in RULES
        ),
    ]


def _promise_faults(page: Page, markers: Markers) -> list[str]:
    promised = {promise.rule for promise in page.promises}
    found = [
        f"{tests[0]} claims {rule}, which is not promised: {REFRESH}"
        for rule, tests in markers.tests_by_rule.items()
        if rule in RULES and rule not in promised
    ]
    for promise in page.promises:
        proofs = markers.tests_by_rule.get(promise.rule, ())
        if not proofs:
            found.append(f"{promise.rule} is promised and no test claims it")
        if promise.mechanism.startswith(UNNAMED):
            found.append(f"{promise.rule} is promised and its mechanism is not named")
        if promise.race and proofs and not any("/races/" in test for test in proofs):
            found.append(f"{promise.rule} is a race and no test in tests/races claims it")
        found += [
            f"{promise.rule} names {test}, which does not exist"
            for test in promise.proofs
            if test not in markers.tests
        ]
    return found

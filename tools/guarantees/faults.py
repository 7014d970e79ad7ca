"""What can be wrong between the page and the markers, without running a test."""

import re
from collections import Counter
from pathlib import Path

from tools.guarantees.catalogue import RACES, RULES
from tools.guarantees.document import (
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
# `file` or `file::name`, in backticks.
PLACE = re.compile(r"`([\w./-]+\.\w+)(?:::(\w+))?`")
REFRESH = "run `.venv/bin/python -m tools.guarantees --write`"


def faults(repository: Path) -> list[str]:
    """Every way in which page and markers disagree, one sentence each."""
    text = (repository / PAGE).read_text()
    try:
        page = parse(text)
    except MalformedPageError as error:
        return [str(error)]
    markers = scan(repository)
    found = [
        *_catalogue_faults(page),
        *_marker_faults(markers),
        *_promise_faults(page, markers, repository),
    ]
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


def _promise_faults(page: Page, markers: Markers, repository: Path) -> list[str]:
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
        found += _mechanism_faults(promise, repository)
        if promise.race and proofs and not any("/races/" in test for test in proofs):
            found.append(f"{promise.rule} is a race and no test in tests/races claims it")
        found += [
            f"{promise.rule} names {test}, which does not exist"
            for test in promise.proofs
            if test not in markers.tests
        ]
    return found


def _mechanism_faults(promise: Promise, repository: Path) -> list[str]:
    places = PLACE.findall(promise.mechanism)
    if not places:
        return [f"{promise.rule} is promised and its mechanism is not named"]
    return [
        f"{promise.rule} names {file}::{name}, which does not exist"
        for file, name in places
        if not _declares(repository / file, name)
    ]


def _declares(path: Path, name: str) -> bool:
    if not path.is_file():
        return False
    declared = (
        rf"^\s*(async def|def|class)\s+{name}\b|^\s*{name}\b\s*[:=]|^\s*(rpc|message)\s+{name}\b"
    )
    return not name or re.search(declared, path.read_text(), re.MULTILINE) is not None

"""Tells each promise with the last result of its tests, and runs those that have none."""

import subprocess
import sys
from pathlib import Path

from tools.guarantees.catalogue import RULES
from tools.guarantees.document import Page, Promise
from tools.guarantees.results import Result, Standing, code_digest, commit_name, load, standing


def prove(repository: Path, page: Page) -> list[str]:
    """Prints every rule; returns the promises without a passing proof, one sentence each."""
    tests = sorted({test for promise in page.promises for test in promise.proofs})
    code = code_digest(repository)
    results = load(repository)
    due = [test for test in tests if standing(test, results, code) is not Standing.PASSED]
    if due:
        _run(repository, due)
        results = load(repository)
    print(f"Promised, at {commit_name(repository)}:\n")
    found = [fault for promise in page.promises for fault in _tell(promise, results, code)]
    print("Not promised yet:\n")
    for draft in page.drafts:
        print(f"{draft.rule:4} {draft.sentence}")
    print(f"\n{len(page.promises)} of {len(RULES)} rules are promised, by {len(tests)} tests.")
    return found


def _run(repository: Path, tests: list[str]) -> None:
    print(f"running {len(tests)} tests whose result is missing, stale or bad", flush=True)
    options = ["-q", "-n", "2", "--dist", "loadfile"]
    subprocess.run([sys.executable, "-m", "pytest", *options, *tests], cwd=repository, check=False)


def _tell(promise: Promise, results: dict[str, Result], code: str) -> list[str]:
    print(f"{promise.rule}{' (race)' if promise.race else ''}  {promise.sentence}")
    found: list[str] = []
    for test in promise.proofs:
        seen = standing(test, results, code)
        print(f"    {seen.value:13} {test}")
        if seen is not Standing.PASSED:
            found.append(f"{promise.rule}: {test}: {seen.value}")
    print()
    return found

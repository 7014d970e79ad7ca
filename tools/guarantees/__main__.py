"""Tells what is promised and what the last tests said of it."""

import argparse
import subprocess
import sys
from pathlib import Path

from tools.guarantees import __doc__ as purpose
from tools.guarantees.catalogue import RULES
from tools.guarantees.document import Page, Promise, parse, render, with_proofs
from tools.guarantees.faults import PAGE, faults
from tools.guarantees.markers import scan
from tools.guarantees.results import Result, Standing, code_digest, commit_name, load, standing

REPOSITORY = Path(__file__).parent.parent.parent


def main() -> int:
    """Compares, runs what is missing or stale, and tells; fails when a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m tools.guarantees", description=purpose)
    parser.add_argument("--write", action="store_true", help="refresh the proofs in the page")
    parser.add_argument("--static", action="store_true", help="run no test")
    options = parser.parse_args()
    if options.write:
        _write()
    found = faults(REPOSITORY)
    if not found and not (options.write or options.static):
        found = _prove(parse((REPOSITORY / PAGE).read_text()))
    for fault in found:
        print(f"FAULT: {fault}", file=sys.stderr)
    return 1 if found else 0


def _write() -> None:
    page = parse((REPOSITORY / PAGE).read_text())
    proofs = scan(REPOSITORY).tests_by_rule
    (REPOSITORY / PAGE).write_text(render(with_proofs(page, proofs, RULES)))


def _prove(page: Page) -> list[str]:
    tests = sorted({test for promise in page.promises for test in promise.proofs})
    code = code_digest(REPOSITORY)
    results = load(REPOSITORY)
    due = [test for test in tests if standing(test, results, code) is not Standing.PASSED]
    if due:
        _run(due)
        results = load(REPOSITORY)
    print(f"Promised, at {commit_name(REPOSITORY)}:\n")
    found = [fault for promise in page.promises for fault in _tell(promise, results, code)]
    print("Not promised yet:\n")
    for draft in page.drafts:
        print(f"{draft.rule:4} {draft.sentence}")
    print(f"\n{len(page.promises)} of {len(RULES)} rules are promised, by {len(tests)} tests.")
    return found


def _run(tests: list[str]) -> None:
    print(f"running {len(tests)} tests whose result is missing, stale or bad", flush=True)
    options = ["-q", "-n", "2", "--dist", "loadgroup"]
    subprocess.run([sys.executable, "-m", "pytest", *options, *tests], cwd=REPOSITORY, check=False)


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


if __name__ == "__main__":
    sys.exit(main())

"""Tells what is promised and what the last tests said of it."""

import argparse
import sys
from pathlib import Path

from tools.guarantees import __doc__ as purpose
from tools.guarantees.catalogue import RULES
from tools.guarantees.document import parse, render, with_proofs
from tools.guarantees.faults import PAGE, faults
from tools.guarantees.markers import scan
from tools.guarantees.report import prove

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
        found = prove(REPOSITORY, parse((REPOSITORY / PAGE).read_text()))
    for fault in found:
        print(f"FAULT: {fault}", file=sys.stderr)
    return 1 if found else 0


def _write() -> None:
    page = parse((REPOSITORY / PAGE).read_text())
    proofs = scan(REPOSITORY).tests_by_rule
    (REPOSITORY / PAGE).write_text(render(with_proofs(page, proofs, RULES)))


if __name__ == "__main__":
    sys.exit(main())

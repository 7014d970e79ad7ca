"""All generated pages in one place."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tools.docs import __doc__ as purpose
from tools.docs import configuration, github_events, metrics, states

DOCS = Path(__file__).parents[2] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration.page,
    "github-events.md": github_events.page,
    "metrics.md": metrics.page,
    "states.md": states.page,
}


def stale(docs: Path) -> list[str]:
    """Names of the pages that do not say what the code says."""
    return [
        name
        for name, page in PAGES.items()
        if not (docs / name).is_file() or (docs / name).read_text() != page()
    ]


def main() -> int:
    """Writes the pages, or with --check compares them."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=purpose)
    parser.add_argument("--check", action="store_true", help="change nothing, fail when stale")
    check = parser.parse_args().check
    found = stale(DOCS)
    for name in found:
        if check:
            print(f"stale page: docs/{name}; run `make docs`", file=sys.stderr)
        else:
            (DOCS / name).write_text(PAGES[name]())
            print(f"wrote docs/{name}")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main())

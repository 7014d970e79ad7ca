"""Every link between the pages of this repository leads somewhere."""

import re
from pathlib import Path

from tests.architecture.tree import files, name_of

LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
IMAGE = re.compile(r"!\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)


def broken_links(page: Path) -> list[str]:
    """Targets in the page that do not exist; links that leave the repository are not followed."""
    text = FENCE.sub("", page.read_text())
    targets = [m["target"] for pattern in (LINK, IMAGE) for m in pattern.finditer(text)]
    return [target for target in targets if "://" not in target and not _resolves(page, target)]


def _resolves(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.exists():
        return False
    return not anchor or (path.suffix == ".md" and anchor in _anchors(path))


def _anchors(page: Path) -> set[str]:
    titles = [match["title"] for match in HEADING.finditer(FENCE.sub("", page.read_text()))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_resolves() -> None:
    pages = [path for path in files() if path.suffix == ".md"]
    assert pages
    assert {name_of(page): found for page in pages if (found := broken_links(page))} == {}


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# The end\n\n[a](#the-end) [b](#the-start) [c](page.md) [d](gone.md)\n")
    assert broken_links(page) == ["#the-start", "gone.md"]

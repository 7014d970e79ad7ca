"""Every link between the pages of this repository, and every path they name, leads somewhere."""

import re
from pathlib import Path

from tests.architecture.tree import REPOSITORY, files, name_of

LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
IMAGE = re.compile(r"!\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(?P<path>[\w.-]+(?:/[\w.-]+)*/?)(?:::\w+)?`")
ENDINGS = (".py", ".md", ".proto", ".toml", ".yaml", ".yml", ".json", ".sh", ".lock", ".sql")
# A file that users may keep in their own checkout.
OF_USERS = {"compose.override.yaml"}
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


def missing_paths(page: Path) -> list[str]:
    """Files and folders that the page names and the tree has not.

    A path is one by its slashes, when it begins where the repository does, or by its ending: a
    bare name is that of some file of the tree.
    """
    names = {path.name for path in files()}
    roots = {name_of(path).partition("/")[0] for path in files()}
    missing = []
    for match in NAMED.finditer(FENCE.sub("", page.read_text())):
        path = match["path"]
        if "/" in path:
            is_there = (REPOSITORY / path).exists() or path.partition("/")[0] not in roots
        else:
            is_there = path in names | OF_USERS or Path(path).suffix not in ENDINGS
        if not is_there:
            missing.append(path)
    return missing


def test_every_path_that_a_page_names_is_there() -> None:
    pages = [
        *(REPOSITORY / name for name in ("ARCHITECTURE.md", "README.md", "CONTRIBUTING.md")),
        *(REPOSITORY / "docs").glob("*.md"),
    ]
    assert {name_of(page): found for page in pages if (found := missing_paths(page))} == {}


def test_a_path_that_is_gone_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`shared/keys.py`, `shared/gone.py`, `tests/gone/`, `services/ingress/`, `gone_store.py`, "
        "`store.py`, `shared/gone.py::Key`, `owner/repo`, `make demo`, `a.b`\n"
    )
    assert missing_paths(page) == [
        "shared/gone.py",
        "tests/gone/",
        "gone_store.py",
        "shared/gone.py",
    ]

"""Nothing in the repository tells on which machine, or from which registry, it was made."""

import re

import pytest

from tests.architecture.tree import REPOSITORY, files, name_of

# Put together from parts, so that this file does not hold what it looks for.
TRACES = re.compile(
    "|".join(
        [
            r"(?<![\w.-])/" + r"work/(main|shared|seeds|\.library)\b",
            r"(?<![\w.-])/" + r"root/(?!\w*\*)",
            r"/tmp/" + r"bash_jobs",
            r"/opt/" + r"(pypi|wheels)",
            r"\bpypi" + r"\.org\b",
            r"\bfiles\.python" + r"hosted\.org\b",
            r"\bregistry\.npm" + r"js\.org\b",
        ]
    )
)


def traces(text: str) -> list[str]:
    """The traces in a text."""
    return [found.group() for found in TRACES.finditer(text)]


def test_no_file_holds_a_trace() -> None:
    found = {
        name_of(path): seen
        for path in files()
        if (seen := traces(path.read_bytes().decode("utf-8", errors="replace")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "planted",
    ["see /" + "work/main/x", "at /" + "root/.cache", "https://" + "pypi" + ".org/simple"],
)
def test_a_trace_is_seen(planted: str) -> None:
    assert traces(planted)


@pytest.mark.parametrize("innocent", ["fencepost/dispatcher/v1/work.proto", "a/root-b", "/work"])
def test_an_innocent_path_is_no_trace(innocent: str) -> None:
    assert traces(innocent) == []


def test_a_file_that_git_ignores_is_not_looked_at() -> None:
    assert not [path for path in files() if ".venv" in path.relative_to(REPOSITORY).parts]

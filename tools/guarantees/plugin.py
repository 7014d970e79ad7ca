"""The pytest side: refuses unknown rules and records how each marked test ended."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.guarantees.catalogue import RULES
from tools.guarantees.results import Result, code_digest, commit_name, remember, test_of

PROPERTY = "guarantee_cases"


def pytest_configure(config: pytest.Config) -> None:
    """Records in the process that sees all reports: under xdist, the one without workers' input."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(config.rootpath), "guarantee-recorder")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Notes on each marked test how many cases it has, before any is deselected."""
    cases = Counter(test_of(item.nodeid) for item in items)
    in_part = bool(config.getoption("lf", default=False)) or any(
        "[" in argument for argument in config.args
    )
    for item in items:
        if _rules(item):
            count = 0 if in_part else cases[test_of(item.nodeid)]
            item.user_properties.append((PROPERTY, count))
    yield


def _rules(item: pytest.Item) -> list[str]:
    rules = [rule for marker in item.iter_markers("guarantee") for rule in marker.args]
    unknown = [rule for rule in rules if rule not in RULES]
    if unknown:
        raise pytest.UsageError(f"{item.nodeid} claims unknown rules: {unknown}")
    return rules


class _Recorder:
    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self._code = ""
        self._ended: dict[str, tuple[str, int]] = {}

    def pytest_sessionstart(self) -> None:
        self._code = code_digest(self._repository)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cases = next((n for name, n in report.user_properties if name == PROPERTY), None)
        if not isinstance(cases, int):
            return
        case = report.nodeid
        before, _ = self._ended.get(case, ("passed", 0))
        self._ended[case] = (_worse(before, report.outcome), cases)

    def pytest_sessionfinish(self) -> None:
        # Code that changed while the tests ran was tested by none of them.
        if self._ended and code_digest(self._repository) == self._code:
            commit = commit_name(self._repository)
            remember(
                self._repository,
                {
                    case: Result(outcome=outcome, code=self._code, commit=commit, cases=cases)
                    for case, (outcome, cases) in self._ended.items()
                },
            )


def _worse(one: str, other: str) -> str:
    return max(one, other, key=("passed", "skipped", "failed").index)

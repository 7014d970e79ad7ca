"""The figures this project is held to, measured here and now: `make figures`.

Cold: a clone of the last commit, with package caches that are empty, to the first publication.
Warm: the demonstration in this checkout. Idle: processor time of each service over 30 s without
work, from /proc. Then every test. Prints a table and, last, one line of JSON, writes
docs/figures.md, and exits 1 when a figure is missed or could not be had.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from services.suite import Suite, SuiteError
from shared.embedded import EmbeddedPostgresError

ROOT = Path(__file__).resolve().parents[1]
IDLE_S = 30.0
SETTLING_S = 5.0

COLD_LIMIT_S = 90.0
WARM_LIMIT_S = 15.0
PSS_LIMIT_MB = 150.0
IDLE_LIMIT_PERCENT = 1.0
TESTS_LIMIT_S = 240.0

PAGE = ROOT / "docs/figures.md"
GIB = 1024**3
OF_THIS_RUN = frozenset(
    {"MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "VENV", "VIRTUAL_ENV"}
)
"""Variables of the `make` that runs this, which the one in the clone must not see."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure with the limit it must stay below."""

    name: str
    value: float
    limit: float
    unit: str

    @property
    def is_met(self) -> bool:
        """Whether it stays below."""
        return self.value < self.limit

    def __str__(self) -> str:
        verdict = "" if self.is_met else "   MISSED"
        shown = f"{self.value:10.2f} {self.unit:<10} below {self.limit:g}"
        return f"{self.name:<34}{shown}{verdict}"

    @property
    def row(self) -> str:
        """A row of the page."""
        limit = f"{self.limit:g}" if self.is_met else f"{self.limit:g}: missed"
        return f"| {self.name} | {self.value:.2f} {self.unit} | below {limit} |"


def main() -> int:
    """Measures all, prints it and writes the page."""
    machine = _machine()
    figures: list[Figure] = []
    try:
        for figure in _measured():
            print(figure, flush=True)
            figures.append(figure)
    except (subprocess.CalledProcessError, SuiteError, EmbeddedPostgresError) as failed:
        print(f"FAILED: {failed}", file=sys.stderr)
        return 1
    PAGE.write_text(_page(figures, machine))
    print(json.dumps({"machine": machine, "figures": [asdict(each) for each in figures]}))
    return 0 if all(figure.is_met for figure in figures) else 1


def _measured() -> Iterator[Figure]:
    yield _cold()
    yield from _warm()
    yield from _idle()
    yield _tests()


def _page(figures: Sequence[Figure], machine: str) -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    day = time.strftime("%Y-%m-%d", time.gmtime())
    lines = [
        "# Figures",
        "",
        f"Measured by `make figures` on {day} at commit {commit.stdout.decode().strip()}.",
        f"The machine: {machine}.",
        "",
        "| figure | measured | limit |",
        "|---|---|---|",
        *(figure.row for figure in figures),
    ]
    return "\n".join(lines) + "\n"


def _machine() -> str:
    """What it is, and how busy it was before anything was measured."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    named = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    processor = named[1] if named else platform.machine()
    return (
        f"{os.cpu_count()} processors ({processor}), {memory_bytes / GIB:.0f} GiB, "
        f"{platform.system()}, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f} before"
    )


def _cold() -> Figure:
    with tempfile.TemporaryDirectory(prefix="fencepost-cold-") as folder:
        clone = Path(folder) / "fencepost"
        caches = {"UV_CACHE_DIR": f"{folder}/uv", "PIP_CACHE_DIR": f"{folder}/pip"}
        began_s = time.monotonic()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        _demo(clone, caches)
        return Figure(
            name="clean clone to first publication",
            value=round(time.monotonic() - began_s, 2),
            limit=COLD_LIMIT_S,
            unit="s",
        )


def _warm() -> list[Figure]:
    began_s = time.monotonic()
    told = _demo(ROOT, {})
    took_s = time.monotonic() - began_s
    warm = Figure(name="make demo", value=round(took_s, 2), limit=WARM_LIMIT_S, unit="s")
    return [warm, *(_memory(service, size) for service, size in told["pss_mb"].items())]


def _memory(service: str, size_mb: float) -> Figure:
    return Figure(name=f"memory of {service}", value=size_mb, limit=PSS_LIMIT_MB, unit="MB (Pss)")


def _demo(folder: Path, changed: Mapping[str, str]) -> dict[str, dict[str, float]]:
    told: dict[str, dict[str, float]] = json.loads(_make("demo", folder, changed).splitlines()[-1])
    return told


def _make(target: str, folder: Path, changed: Mapping[str, str]) -> bytes:
    inherited = os.environ  # noqa: TID251 - handed on, not read
    kept = {name: value for name, value in inherited.items() if name not in OF_THIS_RUN}
    made = subprocess.run(
        ["make", target],
        cwd=folder,
        env={**kept, **changed},
        stdout=subprocess.PIPE,
        check=True,
    )
    return made.stdout


def _tests() -> Figure:
    began_s = time.monotonic()
    _make("test", ROOT, {})
    took_s = round(time.monotonic() - began_s, 2)
    return Figure(name="make test", value=took_s, limit=TESTS_LIMIT_S, unit="s")


def _idle() -> list[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-idle-") as folder,
        Suite(Path(folder), free_ports=True) as suite,
    ):
        threading.Event().wait(SETTLING_S)
        before = {s: processor_s(pid) for s, pid in suite.process_ids.items()}
        threading.Event().wait(IDLE_S)
        used = {s: processor_s(pid) - before[s] for s, pid in suite.process_ids.items()}
    return [
        Figure(
            name=f"idle {service}",
            value=round(100 * seconds / IDLE_S, 2),
            limit=IDLE_LIMIT_PERCENT,
            unit="% of core",
        )
        for service, seconds in used.items()
    ]


def processor_s(process_id: int) -> float:
    """Processor time that a process has used, in user and kernel mode."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())

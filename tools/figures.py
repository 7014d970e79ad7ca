"""The figures this project is held to, measured here and now: `make figures`.

Cold: a clone of the last commit, without any package cache, to the first publication. Warm: the
demonstration in this checkout. Idle: processor time of each service over 30 s without work, from
/proc. Exits 1 when one is missed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from services.suite import Suite

ROOT = Path(__file__).resolve().parents[1]
IDLE_S = 30.0
SETTLING_S = 5.0

COLD_LIMIT_S = 90.0
WARM_LIMIT_S = 15.0
PSS_LIMIT_MB = 150.0
IDLE_LIMIT_PERCENT = 1.0


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


def main() -> int:
    """Measures all and prints a table."""
    figures = [_cold(), *_warm(), *_idle()]
    for figure in figures:
        print(figure, flush=True)
    return 0 if all(figure.is_met for figure in figures) else 1


def _cold() -> Figure:
    with tempfile.TemporaryDirectory(prefix="fencepost-cold-") as folder:
        clone = Path(folder) / "fencepost"
        environment = _environment(
            {"UV_NO_CACHE": "1", "PIP_NO_CACHE_DIR": "1", "HOME": folder, "VENV": ".venv"}
        )
        began_s = time.monotonic()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        _demo(clone, environment)
        return Figure(
            name="clean clone to first publication",
            value=time.monotonic() - began_s,
            limit=COLD_LIMIT_S,
            unit="s",
        )


def _warm() -> list[Figure]:
    began_s = time.monotonic()
    told = _demo(ROOT, _environment({}))
    took_s = time.monotonic() - began_s
    warm = Figure(name="make demo", value=took_s, limit=WARM_LIMIT_S, unit="s")
    return [warm, *(_memory(service, size) for service, size in told["pss_mb"].items())]


def _memory(service: str, size_mb: float) -> Figure:
    return Figure(name=f"memory of {service}", value=size_mb, limit=PSS_LIMIT_MB, unit="MB (Pss)")


def _demo(folder: Path, environment: Mapping[str, str]) -> dict[str, dict[str, float]]:
    played = subprocess.run(
        ["make", "demo"], cwd=folder, env=dict(environment), stdout=subprocess.PIPE, check=True
    )
    last: dict[str, dict[str, float]] = json.loads(played.stdout.splitlines()[-1])
    return last


def _environment(changed: Mapping[str, str]) -> dict[str, str]:
    inherited = os.environ  # noqa: TID251 - handed on, not read
    return {**inherited, **changed}


def _idle() -> list[Figure]:
    folder = Path(tempfile.mkdtemp(prefix="fencepost-idle-"))
    try:
        with Suite(folder, free_ports=True) as suite:
            threading.Event().wait(SETTLING_S)
            before = {s: processor_s(pid) for s, pid in suite.process_ids.items()}
            threading.Event().wait(IDLE_S)
            used = {s: processor_s(pid) - before[s] for s, pid in suite.process_ids.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [
        Figure(
            name=f"idle {service}",
            value=100 * seconds / IDLE_S,
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

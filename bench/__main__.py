"""Measures ours and peers on one durable database in one run: `python -m bench [PART …]`.

Every part runs its contenders in turns and tells medians. Prints a table, and what is missed;
writes bench/results.json. Exits 0 unless something could not be measured at all.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from bench import intake
from bench.results import RESULTS, Results
from bench.rounds import Effort
from bench.runtime_echo import runtime_echo_vs_bare_echo
from bench.stage import Stage, staged

Part = Callable[[Stage, Effort, Results], None]

ON_ONE_STAGE: Mapping[str, Part] = MappingProxyType(
    {
        "submit_unary_vs_echo": intake.submit_unary_vs_echo,
        "webhook_vs_unary": intake.webhook_vs_unary,
        "accept_p99_ms": intake.accept_p99_ms,
        "submit_batch_vs_unnest": intake.submit_batch_vs_unnest,
        "submit_sdk_vs_best_peer": intake.submit_sdk_vs_best_peer,
    }
)
"""Parts that share a running suite."""

ALONE: Mapping[str, Part] = MappingProxyType({"hwm_mb_8x24mb": intake.hwm_mb_8x24mb})
"""Parts that need a suite which nobody used before."""

WITHOUT_STAGE = "runtime_echo_vs_bare_echo"
PARTS = (WITHOUT_STAGE, *ON_ONE_STAGE, *ALONE)


def main() -> int:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=Effort.rounds)
    parser.add_argument("--seconds", type=float, default=Effort.seconds, help="of each run")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    results = Results()
    effort = Effort(rounds=given.rounds, seconds=given.seconds)
    server = measure(given.parts or PARTS, effort, results)
    results.write(server)
    print(results.table())
    for sentence in results.missed():
        print(f"MISSED: {sentence}")
    print(f"written to {RESULTS}")
    return 0


def measure(parts: Sequence[str], effort: Effort, results: Results) -> dict[str, str]:
    """Fills the results; returns what the database server says of itself."""
    server: dict[str, str] = {}
    if WITHOUT_STAGE in parts:
        runtime_echo_vs_bare_echo(effort, results)
    together = [part for name, part in ON_ONE_STAGE.items() if name in parts]
    alone = [part for name, part in ALONE.items() if name in parts]
    for group in [together, *([part] for part in alone)]:
        if group:
            server = _on_a_stage(group, effort, results)
    return server


def _on_a_stage(group: list[Part], effort: Effort, results: Results) -> dict[str, str]:
    temporary = tempfile.TemporaryDirectory(prefix="fencepost-bench-")
    with temporary as folder, staged(Path(folder)) as stage:
        for part in group:
            part(stage, effort, results)
        return stage.settings_of_server()


if __name__ == "__main__":
    sys.exit(main())

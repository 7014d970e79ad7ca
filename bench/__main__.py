"""Measures ours and peers on one durable database in one run: `python -m bench [PART …]`.

Every part runs its contenders in turns and tells medians. Prints a table, and what is missed;
writes bench/results.json. A part that could not be measured is told as absent, with the reason.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from bench import intake
from bench.peer_runs import PeerAbsentError
from bench.results import RESULTS, Results
from bench.rounds import Effort
from bench.runtime_echo import runtime_echo_vs_bare_echo
from bench.stage import Stage, staged
from bench.webhooks import RefusedError

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

NOT_MEASURED = (subprocess.CalledProcessError, RefusedError, PeerAbsentError)
"""What keeps a part from being measured, and no other."""

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
    together = {name: part for name, part in ON_ONE_STAGE.items() if name in parts}
    alone = ({name: part} for name, part in ALONE.items() if name in parts)
    for group in (together, *alone):
        if group:
            server = _on_a_stage(group, effort, results)
    return server


def _on_a_stage(group: Mapping[str, Part], effort: Effort, results: Results) -> dict[str, str]:
    temporary = tempfile.TemporaryDirectory(prefix="fencepost-bench-")
    with temporary as folder, staged(Path(folder)) as stage:
        for name, part in group.items():
            try:
                part(stage, effort, results)
            except NOT_MEASURED as failure:
                results.absent[name] = str(failure).partition("\n")[0]
        return stage.settings_of_server()


if __name__ == "__main__":
    sys.exit(main())

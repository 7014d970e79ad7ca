"""What came of it: ratios, figures, who was absent; as a table and as JSON."""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.thresholds import THRESHOLDS

RESULTS = Path(__file__).parent / "results.json"


@dataclass(kw_only=True)
class Results:
    """Filled part by part."""

    ratios: dict[str, float] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def ratio(self, name: str, value: float) -> None:
        """A ratio of two medians of this run."""
        self.ratios[name] = round(value, 3)

    def figure(self, name: str, value: float) -> None:
        """Anything else; its unit stands in its name."""
        self.figures[name] = round(value, 2)

    def missed(self) -> list[str]:
        """A sentence for each threshold that was measured and is not met."""
        measured = {**self.ratios, **self.figures}
        return [
            f"{each.name} is {measured[each.name]:g}, {each} is asked for"
            for each in THRESHOLDS
            if each.name in measured and not each.is_met(measured[each.name])
        ]

    def write(self, server: Mapping[str, str]) -> None:
        """Writes results.json, with the machine and the day."""
        content = {
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),  # noqa: TID251 - a label
            "machine": machine(),
            "database": dict(server),
            "ratios": self.ratios,
            "figures": self.figures,
            "absent": self.absent,
            "missed": self.missed(),
        }
        RESULTS.write_text(json.dumps(content, indent=2) + "\n")

    def table(self) -> str:
        """For people to read."""
        asked = {each.name: str(each) for each in THRESHOLDS}
        lines = [
            f"{name:<36}{value:>12g}   {asked.get(name, '')}".rstrip()
            for name, value in (*self.ratios.items(), *self.figures.items())
        ]
        lines += [f"{name:<36}{'absent':>12}   {why}" for name, why in self.absent.items()]
        return "\n".join(lines)


def machine() -> dict[str, object]:
    """What the figures depend on."""
    return {
        "processors": os.cpu_count(),
        "load_1_minute": round(os.getloadavg()[0], 2),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "system": platform.platform(),
        "python": platform.python_version(),
    }

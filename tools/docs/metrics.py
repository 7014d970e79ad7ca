"""docs/metrics.md: every metric that /metrics shows, by the service that has it."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType, ModuleType

from prometheus_client.metrics import MetricWrapperBase

from services.ingress import metrics as ingress
from services.publisher import metrics as publisher
from services.watchdog.status import gauges as watchdog
from shared import metrics as every

MODULES: Mapping[str, ModuleType] = MappingProxyType(
    {
        "Every service": every,
        "Ingress": ingress,
        "Publisher": publisher,
        "Watchdog": watchdog,
    }
)
"""Where metrics are declared. The dispatcher has none of its own."""

UNITS = ("seconds", "bytes")
OPENING = """\
# Metrics

What each service shows for Prometheus at `/metrics` of its admin address
([addresses](configuration.md)). A histogram has `_bucket`, `_sum` and `_count`; a metric without a
unit counts. Written by `make docs` from the code that declares them.
"""
HEADING = "| metric | kind | labels | unit | meaning |\n|---|---|---|---|---|\n"


def page() -> str:
    """The whole page."""
    return "\n".join([OPENING, *(_table(name, module) for name, module in MODULES.items())])


def _table(title: str, module: ModuleType) -> str:
    rows = [*_declared(module), *(_of_the_process() if module is every else ())]
    return f"## {title}\n\n{HEADING}{''.join(sorted(rows))}"


def _declared(module: ModuleType) -> Iterator[str]:
    for metric in vars(module).values():
        if isinstance(metric, MetricWrapperBase):
            [family] = metric.describe()
            labels = metric._labelnames  # noqa: SLF001  (told nowhere else)
            yield _row(family.name, family.type, family.documentation, labels)


def _of_the_process() -> Iterator[str]:
    for family in every.PROCESS.collect():
        yield _row(family.name, family.type, family.documentation, ())


def _row(name: str, kind: str, meaning: str, labels: tuple[str, ...]) -> str:
    unit = next((unit for unit in UNITS if name.endswith(f"_{unit}")), "")
    shown = f"{name}_total" if kind == "counter" else name
    listed = ", ".join(f"`{label}`" for label in labels)
    return f"| `{shown}` | {kind} | {listed} | {unit} | {meaning} |\n"

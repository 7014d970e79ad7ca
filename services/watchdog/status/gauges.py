"""The figures of all tenants as metrics: what cannot be observed has no sample, never zero (W5)."""

from prometheus_client import Gauge

from services.watchdog.status.operations import Observation, Observed, StatusOperations
from shared.metrics import REGISTRY

STATUS_FIGURE = Gauge(
    "status_figure",
    "Each figure of the status over all tenants, by its name; no sample while it is unobservable.",
    ("figure",),
    registry=REGISTRY,
)
ENDPOINT_LAST_DELIVERY_AGE = Gauge(
    "endpoint_heard_age_seconds",
    "How long ago an endpoint's last delivery was stored; no sample where none was ever heard.",
    ("tenant", "endpoint"),
    registry=REGISTRY,
)
STATUS_UNOBSERVABLE = Gauge(
    "status_figure_unobservable",
    "1 while the figure cannot be observed, else 0.",
    ("figure",),
    registry=REGISTRY,
)


class FigureGauges:
    """Keeps the gauges at what was observed last."""

    def __init__(self, status: StatusOperations) -> None:
        self._status = status

    async def tick(self) -> None:
        """Observes every figure once."""
        observations = await self._status.status(None)
        ENDPOINT_LAST_DELIVERY_AGE.clear()
        for observation in observations:
            name = observation.figure.name
            if observation.labels:
                STATUS_UNOBSERVABLE.labels(name).set(0)
                _show_labelled(observation)
            elif isinstance(observation, Observed):
                STATUS_FIGURE.labels(name).set(observation.value)
                STATUS_UNOBSERVABLE.labels(name).set(0)
            else:
                _forget(name)
                STATUS_UNOBSERVABLE.labels(name).set(1)


def _show_labelled(observation: Observation) -> None:
    """Ages of endpoints; ingress itself counts what it takes in and refuses."""
    if isinstance(observation, Observed) and "endpoint" in observation.labels:
        ENDPOINT_LAST_DELIVERY_AGE.labels(**observation.labels).set(observation.value)


def _forget(name: str) -> None:
    # Made first: the client refuses to remove a sample that is not there.
    STATUS_FIGURE.labels(name)
    STATUS_FIGURE.remove(name)

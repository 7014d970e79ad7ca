"""A way into one instance of a forge."""

from dataclasses import dataclass, field

from services.publisher.model import ForgeKind


@dataclass(frozen=True, kw_only=True)
class Access:
    """Where its API is and what opens it; made for one call and kept by nobody (K1)."""

    forge: ForgeKind
    instance: str
    base_url: str
    token: str = field(repr=False)

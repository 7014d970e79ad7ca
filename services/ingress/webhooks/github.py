"""GitHub's envelope: the headers it is in, its signature, and the answers it understands."""

from services.ingress.webhooks.forge import TELLING_STATUSES, Forge
from services.ingress.webhooks.signatures import in_hex

SIGNATURE = "x-hub-signature-256"
"""The one trusted header; the older X-Hub-Signature, which is SHA-1, counts for nothing (I5)."""

FORGE = Forge(
    proof=f"Send one {SIGNATURE} header, made over the raw body with the secret.",
    delivery_header="x-github-delivery",
    event_header="x-github-event",
    check=in_hex(SIGNATURE, prefix="sha256="),
    statuses=TELLING_STATUSES,
)

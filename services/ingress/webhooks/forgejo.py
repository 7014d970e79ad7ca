"""Forgejo's envelope. It sends the headers of Gitea, GitHub and Gogs as well; none counts (I5)."""

from services.ingress.webhooks.forge import TELLING_STATUSES, Forge
from services.ingress.webhooks.gitea import PROOF
from services.ingress.webhooks.signatures import in_hex

SIGNATURE = "x-forgejo-signature"

FORGE = Forge(
    proof=PROOF.format(SIGNATURE),
    delivery_header="x-forgejo-delivery",
    event_header="x-forgejo-event",
    check=in_hex(SIGNATURE),
    statuses=TELLING_STATUSES,
)

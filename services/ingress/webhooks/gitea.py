"""Gitea's envelope. It sends the headers of GitHub and Gogs as well; none of them counts (I5).

A hook of Gitea's that posts forms signs the JSON inside, not the form it sends. To check that a
body would have to be parsed before it is believed, so such a hook is not authentic here.
"""

from services.ingress.webhooks.forge import TELLING_STATUSES, Forge
from services.ingress.webhooks.signatures import in_hex

SIGNATURE = "x-gitea-signature"
PROOF = (
    "Send one {} header, made over the raw body with the secret; choose application/json for the "
    "webhook, since of a form only what is inside it would be signed."
)

FORGE = Forge(
    proof=PROOF.format(SIGNATURE),
    delivery_header="x-gitea-delivery",
    event_header="x-gitea-event",
    check=in_hex(SIGNATURE),
    statuses=TELLING_STATUSES,
)

"""Keeps an authentic delivery that was refused, as it came."""

import hashlib

from fencepost.errors import FieldInvalid, Refusal

from services.ingress import deliveries_store
from services.ingress.body_rules import storable
from services.ingress.deliveries_store import DeliveryWrite
from services.ingress.submissions import Submission
from shared.database import Transaction
from shared.schema.states import DeliveryOutcome


async def keep(tx: Transaction, submission: Submission, refusal: Refusal) -> None:
    """Stores it without a marker: it occupies nothing (I13)."""
    endpoint = submission.endpoint
    violations = refusal.violations if isinstance(refusal, FieldInvalid) else ()
    projection = {"field": violations[0][0] if violations else "", "message": refusal.message}
    deliveries_store.insert_deliveries(
        tx,
        [
            DeliveryWrite(
                delivery_seq=None,
                tenant=endpoint.tenant,
                endpoint=endpoint.name,
                delivery_id=submission.delivery_id,
                forge=endpoint.forge,
                forge_instance=endpoint.forge_instance,
                event=submission.event,
                event_action="",
                content_type=submission.content_type,
                body=submission.body,
                body_sha256=hashlib.sha256(submission.body).digest(),
                outcome=DeliveryOutcome.REFUSED,
                reason=refusal.reason,
                matched_delivery_id=None,
                intent_ids=(),
                key=None,
                key_label=None,
                repo_id=None,
                number=None,
                projection={name: storable(value) for name, value in projection.items()},
                traceparent=submission.traceparent,
            )
        ],
    )

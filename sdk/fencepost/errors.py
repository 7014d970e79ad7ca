"""Every refusal the suite knows, one class for each reason of the contract.

A service raises one anywhere, one server interceptor turns it into a status, and the client raises
the same class with the same fields again (`fencepost.status` is that pair). The sentence of each
class says what happened and what to do next; it is sent to callers, so it holds no internals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from grpc import StatusCode

from fencepost.refusal import FencepostError as FencepostError
from fencepost.refusal import Refusal as Refusal

SHOWN_VIOLATIONS = 3


class FieldViolation(NamedTuple):
    """One broken rule: the field's path in the request, and what it must be."""

    field: str
    sentence: str


@dataclass(eq=False, kw_only=True)
class FieldInvalid(Refusal):
    """Fields of the request broke their rules; nothing was done."""

    reason = "FIELD_INVALID"
    code = StatusCode.INVALID_ARGUMENT

    violations: Sequence[tuple[str, str]]

    def __post_init__(self) -> None:
        self.violations = tuple(FieldViolation(*each) for each in self.violations)
        self.message = self.message or self._summary()
        super().__post_init__()

    def _summary(self) -> str:
        shown = [f"{field}: {sentence}" for field, sentence in self.violations[:SHOWN_VIOLATIONS]]
        hidden = len(self.violations) - len(shown)
        rest = f" (and {hidden} more)" if hidden else ""
        return f"Nothing was done; mend the request: {'; '.join(shown)}{rest}."


@dataclass(eq=False, kw_only=True)
class KeyUnknown(Refusal):
    """No key was sent, or it is not known."""

    reason = "KEY_UNKNOWN"
    code = StatusCode.UNAUTHENTICATED
    sentence = "No valid API key came with the call: send metadata authorization: Bearer fp_..."


@dataclass(eq=False, kw_only=True)
class KeyRevoked(Refusal):
    """The key was revoked or has expired."""

    reason = "KEY_REVOKED"
    code = StatusCode.UNAUTHENTICATED
    sentence = "The API key was revoked or has expired: use another key."


@dataclass(eq=False, kw_only=True)
class ScopeMissing(Refusal):
    """The key may not do this."""

    reason = "SCOPE_MISSING"
    code = StatusCode.PERMISSION_DENIED
    sentence = "The API key lacks the scope {scope}: use a key that carries it."

    scope: str


@dataclass(eq=False, kw_only=True)
class ResourceNotFound(Refusal):
    """No such thing for this tenant; another tenant's is answered the same way."""

    reason = "RESOURCE_NOT_FOUND"
    code = StatusCode.NOT_FOUND
    sentence = "There is no {kind} {name!a}: check its name and the tenant of your key."

    kind: str
    name: str


@dataclass(eq=False, kw_only=True)
class DeliveryConflict(Refusal):
    """The delivery id stands for another body."""

    reason = "DELIVERY_CONFLICT"
    code = StatusCode.ALREADY_EXISTS
    sentence = (
        "Delivery {delivery_id!a} of endpoint {endpoint!a} is stored with another body: "
        "nothing was taken in; send a new body under a new id."
    )

    endpoint: str
    delivery_id: str


@dataclass(eq=False, kw_only=True)
class OutcomeConflict(Refusal):
    """The dispatch has another outcome already."""

    reason = "OUTCOME_CONFLICT"
    code = StatusCode.ALREADY_EXISTS
    sentence = "Intent {intent_id} was settled as {stored!a} under this dispatch: that one stands."

    intent_id: int
    stored: str


@dataclass(eq=False, kw_only=True)
class RequestIdReused(Refusal):
    """The request id stands for another request, or for one whose answer is shown only once."""

    reason = "REQUEST_ID_REUSED"
    code = StatusCode.ALREADY_EXISTS
    sentence = "Request id {request_id!a} was used before: choose a new one for a new request."

    request_id: str


@dataclass(eq=False, kw_only=True)
class LeaseLost(Refusal):
    """The lease is no longer the caller's; nothing was written."""

    reason = "LEASE_LOST"
    code = StatusCode.ABORTED
    sentence = (
        "The lease on {key} for {action} is no longer yours at epoch {epoch}: "
        "nothing was written; stop work under it."
    )

    key: str
    action: str
    epoch: int


@dataclass(eq=False, kw_only=True)
class CheckpointStale(Refusal):
    """The flush was based on a version that is not the latest."""

    reason = "CHECKPOINT_STALE"
    code = StatusCode.ABORTED
    sentence = (
        "The flush is based on version {base_version}, the latest is {latest_version}: "
        "nothing was written; load the run again."
    )

    base_version: int
    latest_version: int


@dataclass(eq=False, kw_only=True)
class CheckpointRequired(Refusal):
    """The call relies on a checkpoint that is not durable."""

    reason = "CHECKPOINT_REQUIRED"
    code = StatusCode.FAILED_PRECONDITION
    sentence = (
        "Checkpoint {wanted_version} is not durable, or not final where it must be; the latest "
        "is {latest_version}: flush first, then call again."
    )

    wanted_version: int
    latest_version: int


@dataclass(eq=False, kw_only=True)
class ReconciliationRequired(Refusal):
    """An attempt of this publication is running or in doubt."""

    reason = "RECONCILIATION_REQUIRED"
    code = StatusCode.FAILED_PRECONDITION
    sentence = (
        "Publication {publication_id} has an attempt that is {status}: "
        "nothing was sent, and nothing is sent again until it is settled."
    )

    publication_id: int
    status: str


@dataclass(eq=False, kw_only=True)
class PublicationBlocked(Refusal):
    """Proven absent, and nobody has authorised a new attempt."""

    reason = "PUBLICATION_BLOCKED"
    code = StatusCode.FAILED_PRECONDITION
    sentence = (
        "Publication {publication_id} was proven absent: nothing was sent; "
        "an operator must authorise a new attempt."
    )

    publication_id: int


@dataclass(eq=False, kw_only=True)
class PublicationsHeld(Refusal):
    """An operator holds publications for this target."""

    reason = "PUBLICATIONS_HELD"
    code = StatusCode.FAILED_PRECONDITION
    sentence = (
        "Hold {hold_id} stops publications here ({why}): nothing was sent; "
        "it can be published once the hold is released."
    )

    hold_id: int
    why: str


@dataclass(eq=False, kw_only=True)
class PublicationRefused(Refusal):
    """Nothing was published, by a proof: it was not sent, or the forge refused it."""

    reason = "PUBLICATION_REFUSED"
    code = StatusCode.FAILED_PRECONDITION
    sentence = (
        "Publication {publication_id} was not published ({proof}): "
        "mend the cause, then publish again."
    )

    publication_id: int
    proof: str


@dataclass(eq=False, kw_only=True)
class ConnectionMissing(Refusal):
    """The tenant has no connection to this forge."""

    reason = "CONNECTION_MISSING"
    code = StatusCode.FAILED_PRECONDITION
    sentence = (
        "Tenant {tenant!a} has no connection to {forge_instance!a}: nothing was sent; make one "
        "with `fencepost connections put {forge_instance} --tenant {tenant}`."
    )

    tenant: str
    forge_instance: str


@dataclass(eq=False, kw_only=True)
class ConnectionDisabled(Refusal):
    """The tenant's connection to this forge was disabled."""

    reason = "CONNECTION_DISABLED"
    code = StatusCode.FAILED_PRECONDITION
    sentence = (
        "The connection of tenant {tenant!a} to {forge_instance!a} is disabled: nothing was sent; "
        "use it again with `fencepost connections put {forge_instance} --tenant {tenant} --enable`."
    )

    tenant: str
    forge_instance: str


@dataclass(eq=False, kw_only=True)
class SchemaMismatch(Refusal):
    """Code and schema do not fit."""

    reason = "SCHEMA_MISMATCH"
    code = StatusCode.FAILED_PRECONDITION
    sentence = (
        "This code is of schema revision {expected_revision}, the database is at {found_revision} "
        "and admits code from {oldest_code} on: run `python -m services migrate` or newer code."
    )

    expected_revision: int
    found_revision: int
    oldest_code: int


@dataclass(eq=False, kw_only=True)
class SealingKeyUnknown(Refusal):
    """A stored secret is sealed under a key that the service does not have."""

    reason = "SEALING_KEY_UNKNOWN"
    code = StatusCode.FAILED_PRECONDITION
    sentence = (
        "A secret is sealed under key {key_id!a}, which the service's keyring lacks: "
        "put that key back, or set the secret anew."
    )

    key_id: str


@dataclass(eq=False, kw_only=True)
class SecretTampered(Refusal):
    """A stored secret is not what was sealed there: changed, or another's."""

    reason = "SECRET_TAMPERED"
    code = StatusCode.FAILED_PRECONDITION
    sentence = (
        "The stored {purpose} of {owner!a} is not what was sealed there: "
        "it is not used; find out who changed it, and set it anew."
    )

    purpose: str
    owner: str


@dataclass(eq=False, kw_only=True)
class Draining(Refusal):
    """The server is shutting down."""

    reason = "DRAINING"
    code = StatusCode.UNAVAILABLE
    retriable = True
    sentence = "The server is shutting down: call again, another replica will answer."

    retry_after_ms: int = 100


@dataclass(eq=False, kw_only=True)
class DatabaseUnavailable(Refusal):
    """The database does not answer; with `outcome_unknown` a commit may have happened (X6)."""

    reason = "DATABASE_UNAVAILABLE"
    code = StatusCode.UNAVAILABLE
    retriable = True

    outcome_unknown: bool = False
    retry_after_ms: int = 1000

    def __post_init__(self) -> None:
        self.message = self.message or (
            "The database was lost during a commit whose outcome is unknown: "
            "repeat with the same ids to learn it."
            if self.outcome_unknown
            else "The database does not answer and nothing was written: call again later."
        )
        super().__post_init__()


@dataclass(eq=False, kw_only=True)
class Overloaded(Refusal):
    """Too much is in flight."""

    reason = "OVERLOADED"
    code = StatusCode.UNAVAILABLE
    retriable = True
    sentence = "Too many calls are in flight: call again after {retry_after_ms} ms."

    retry_after_ms: int = 500


@dataclass(eq=False, kw_only=True)
class ForgeUnavailable(Refusal):
    """The forge cannot say now."""

    reason = "FORGE_UNAVAILABLE"
    code = StatusCode.UNAVAILABLE
    retriable = True
    sentence = "The forge cannot say now ({why}): ask again after {retry_after_ms} ms."

    why: str
    retry_after_ms: int = 5000


@dataclass(eq=False, kw_only=True)
class BodyTooLarge(Refusal):
    """The body is over the limit."""

    reason = "BODY_TOO_LARGE"
    code = StatusCode.RESOURCE_EXHAUSTED
    sentence = "The body is over the limit of {limit_bytes} bytes: shrink it."

    limit_bytes: int


@dataclass(eq=False, kw_only=True)
class DeadlineTooShort(Refusal):
    """The deadline passed, or too little of it was left to begin."""

    reason = "DEADLINE_TOO_SHORT"
    code = StatusCode.DEADLINE_EXCEEDED
    sentence = (
        "The deadline passed or left too little time: what was under way may have happened; "
        "call again with the same ids and more time."
    )


@dataclass(eq=False, kw_only=True)
class Internal(Refusal):
    """A fault of ours; only the log knows it, under the error id."""

    reason = "INTERNAL"
    code = StatusCode.INTERNAL
    sentence = "The server failed; look for error id {error_id} in its log."

    error_id: str


ERROR_BY_REASON: dict[str, type[Refusal]] = {each.reason: each for each in Refusal.__subclasses__()}
"""The class of each reason known to this version."""

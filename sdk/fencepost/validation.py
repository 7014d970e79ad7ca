"""The contracts' field rules, enforced by the server and by the client before it sends (X4).

A check costs 1 µs for an empty message and about 3 µs an item of a list; reading the answer costs
only where a rule is broken.
"""

from google.protobuf.message import Message
from protovalidate import FieldPathElementPb, FieldPathPb, Validator, Violation

from fencepost.errors import FieldInvalid, FieldViolation

_VALIDATOR = Validator()


def violations(message: Message) -> list[FieldViolation]:
    """Every rule that the message breaks, in order of its fields."""
    return [_violation(found) for found in _VALIDATOR.collect_violations(message)]


def check(message: Message) -> None:
    """Raises FieldInvalid, which names the fields, unless the message keeps its rules."""
    if broken := _VALIDATOR.collect_violations(message):
        raise FieldInvalid(violations=[_violation(found) for found in broken])


def _violation(found: Violation) -> FieldViolation:
    sentence = found.proto.message or f"breaks the rule {found.proto.rule_id}"
    key = "a key " if found.proto.for_key else ""
    return FieldViolation(_path(found.proto.field), f"{key}{sentence}")


def _path(path: FieldPathPb | None) -> str:
    return ".".join(_element(element) for element in path.elements) if path else ""


def _element(element: FieldPathElementPb) -> str:
    subscript = element.subscript
    if subscript is None:
        return element.field_name
    return f"{element.field_name}[{subscript.value!a}]"

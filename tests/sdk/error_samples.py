"""One error of each class, with every field set to something that is not its default."""

from dataclasses import fields

from fencepost.errors import ERROR_BY_REASON, Refusal

_VALUES: dict[object, object] = {str: 'a "name"', int: 2**53 + 1, bool: True}


def sample(error_type: type[Refusal]) -> Refusal:
    """An error of this class, its fields filled by their types."""
    values = {
        field.name: _VALUES[field.type]
        for field in fields(error_type)
        if field.name not in {"message", "violations", "retry_after_ms"}
    }
    if error_type.reason == "FIELD_INVALID":
        values["violations"] = [("request_id", "must be set"), ("intents[0].queue", "is empty")]
    if error_type.retriable:
        values["retry_after_ms"] = 1234
    return error_type(**values)  # type: ignore[arg-type]  # chosen by the declared types


SAMPLES = [sample(error_type) for error_type in ERROR_BY_REASON.values()]

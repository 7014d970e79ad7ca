"""What callers may send: read, checked, and refused in GitHub's words."""

import json
import re

from examples.scripted_forge.store import ReviewContent

DOCUMENTATION_URL = "https://docs.github.com/rest"
BODY_MAX_CHARACTERS = 65_536
STATES = {
    None: "PENDING",
    "APPROVE": "APPROVED",
    "REQUEST_CHANGES": "CHANGES_REQUESTED",
    "COMMENT": "COMMENTED",
}
COMMENT_TEXTS = ("path", "body", "side", "start_side")
COMMENT_NUMBERS = ("position", "line", "start_line")


class RefusedError(Exception):
    """An answer in GitHub's error form."""

    def __init__(self, status: int, message: str, *errors: object) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors

    def form(self) -> dict[str, object]:
        """The body of the answer."""
        form: dict[str, object] = {"message": self.message}
        if self.errors:
            form["errors"] = list(self.errors)
        return {**form, "documentation_url": DOCUMENTATION_URL, "status": str(self.status)}


class Fields:
    """A JSON object whose members are asked for by type; a wrong one is refused by name."""

    def __init__(self, members: dict[str, object]) -> None:
        self._members = members

    @classmethod
    def parse(cls, body: bytes) -> "Fields":
        """Reads a body; 400 where it is no JSON object. An empty body has no fields."""
        if not body:
            return cls({})
        try:
            members = json.loads(body)
        except ValueError as error:
            raise RefusedError(400, "Problems parsing JSON") from error
        if not isinstance(members, dict):
            raise RefusedError(400, "Body should be a JSON object")
        return cls(members)

    def text(self, name: str) -> str | None:
        """A string, None where the field is missing or null."""
        value = self._members.get(name)
        if value is not None and not isinstance(value, str):
            raise _mistyped(name, value, "string")
        return value

    def number(self, name: str) -> int | None:
        """An integer, None where the field is missing or null."""
        value = self._members.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise _mistyped(name, value, "integer")
        return value

    def flag(self, name: str) -> bool:
        """A boolean, false where the field is missing or null."""
        value = self._members.get(name)
        if value is not None and not isinstance(value, bool):
            raise _mistyped(name, value, "boolean")
        return value is True

    def texts(self, name: str) -> dict[str, str]:
        """An object of strings, empty where the field is missing."""
        value = self._members.get(name, {})
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise _mistyped(name, value, "object of strings")
        return value

    def objects(self, name: str) -> list["Fields"]:
        """An array of objects, empty where the field is missing or null."""
        value = self._members.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise _mistyped(name, value, "array of objects")
        return [Fields(item) for item in value]

    def object(self, name: str) -> "Fields":
        """An object, empty where the field is missing."""
        value = self._members.get(name, {})
        if not isinstance(value, dict):
            raise _mistyped(name, value, "object")
        return Fields(value)

    def required(self, name: str) -> str:
        """A string that must be there."""
        value = self.text(name)
        if value is None:
            raise RefusedError(422, f'Invalid request.\n\n"{name}" wasn\'t supplied.')
        return value


def review_content(fields: Fields, *, head_sha: str) -> ReviewContent:
    """A review as posted, for the head where no commit is named."""
    event = fields.text("event")
    if event not in STATES:
        raise _unprocessable(f"Variable $event was provided invalid value: {event}")
    body = fields.text("body") or ""
    if event in ("REQUEST_CHANGES", "COMMENT") and not body.strip():
        raise _unprocessable("Body cannot be blank")
    if len(body) > BODY_MAX_CHARACTERS:
        raise _unprocessable(f"Body is too long (maximum is {BODY_MAX_CHARACTERS} characters)")
    commit_id = fields.text("commit_id") or head_sha
    if not re.fullmatch(r"[0-9a-f]{40}", commit_id):
        raise _unprocessable("Variable $commitOID of type GitObjectID was provided invalid value")
    comments = [_review_comment(comment) for comment in fields.objects("comments")]
    return ReviewContent(STATES[event], body, commit_id, json.dumps(comments))


def comment_body(fields: Fields) -> str:
    """An issue comment's text."""
    body = fields.required("body")
    if not body.strip():
        raise _invalid_comment("missing_field", "body can't be blank")
    if len(body) > BODY_MAX_CHARACTERS:
        maximum = f"maximum is {BODY_MAX_CHARACTERS} characters"
        raise _invalid_comment("custom", f"body is too long ({maximum})")
    return body


def not_a_commit_of_the_pull(commit_id: str) -> RefusedError:
    """The refusal of a review for a commit the pull request never had."""
    return _unprocessable(f"Commit {commit_id} is not part of the pull request")


def _review_comment(fields: Fields) -> dict[str, object]:
    fields.required("path")
    fields.required("body")
    texts = {name: fields.text(name) for name in COMMENT_TEXTS}
    numbers = {name: fields.number(name) for name in COMMENT_NUMBERS}
    return {name: value for name, value in {**texts, **numbers}.items() if value is not None}


def _invalid_comment(code: str, message: str) -> RefusedError:
    error = {"resource": "IssueComment", "code": code, "field": "body", "message": message}
    return RefusedError(422, "Validation Failed", error)


def _unprocessable(error: str) -> RefusedError:
    return RefusedError(422, "Unprocessable Entity", error)


def _mistyped(name: str, value: object, kind: str) -> RefusedError:
    shown = json.dumps(value)[:100]
    return RefusedError(
        422, f"Invalid request.\n\nFor 'properties/{name}', {shown} is not a {kind}."
    )

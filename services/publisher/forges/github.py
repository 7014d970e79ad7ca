"""GitHub: how a review is written for it."""

import json

from fencepost.errors import FieldInvalid, ResourceNotFound

from services.publisher.forges import evidence, github_answers
from services.publisher.forges.access import Access
from services.publisher.forges.answers import without_secret
from services.publisher.forges.paths import repo_path
from services.publisher.forges.transport import Transport
from services.publisher.model import (
    Draft,
    ForgeKind,
    LineComment,
    Outcome,
    Place,
    Refused,
    Review,
    Slot,
    Verdict,
)

API_VERSION = "2022-11-28"
NO_TOKEN = "never sent: there is no connection and no forge token (PUBLISHER_FORGE_TOKEN)"
BODY_LIMIT_CHARACTERS = 65_536
EVENTS = {
    Verdict.COMMENT: "COMMENT",
    Verdict.APPROVE: "APPROVE",
    Verdict.REQUEST_CHANGES: "REQUEST_CHANGES",
}


class GitHub:
    """One instance of GitHub behind the Forge interface."""

    def __init__(
        self, transport: Transport, access: Access, *, user_agent: str, strict_uncertain: bool
    ) -> None:
        self._transport = transport
        self._access = access
        self._strict_uncertain = strict_uncertain
        self._headers = {
            **read_headers(access.token, user_agent),
            "content-type": "application/json",
        }

    def review_draft(self, place: Place, review: Review, slot: Slot) -> Draft:
        """Keeps P7 (the written side): the marker stands first, and the text can hold none."""
        if (place.forge, place.forge_instance) != (ForgeKind.GITHUB, self._access.instance):
            raise ResourceNotFound(kind=f"connection to {place.forge}", name=place.forge_instance)
        marker = evidence.marker(slot)
        body = f"{marker}\n\n{evidence.without_markers(review.body)}"
        if len(body) > BODY_LIMIT_CHARACTERS:
            room = BODY_LIMIT_CHARACTERS - len(marker) - 2
            rule = f"must be at most {room} characters here: GitHub takes {BODY_LIMIT_CHARACTERS}"
            raise FieldInvalid(violations=[("body", f"{rule}, with our marker")])
        content: dict[str, object] = {
            "commit_id": place.head_sha,
            "body": body,
            "event": EVENTS[review.verdict],
        }
        if review.comments:
            content["comments"] = [_comment(comment) for comment in review.comments]
        repo = repo_path(place.repo_name)
        if repo is None:
            raise ResourceNotFound(kind="repository", name=place.repo_name)
        path = f"{repo}/pulls/{place.number}/reviews"
        return Draft("POST", path, json.dumps(content).encode(), evidence=marker)

    async def send(self, draft: Draft) -> Outcome:
        """One request, with the token of this instance."""
        token = self._access.token
        if not token:
            return Refused(NO_TOKEN)
        url = self._access.base_url + draft.path
        reply = await self._transport.send(draft.method, url, self._headers, draft.body)
        return github_answers.judge(
            without_secret(reply, token),
            evidence=draft.evidence,
            strict_uncertain=self._strict_uncertain,
        )


def read_headers(token: str, user_agent: str) -> dict[str, str]:
    """What every request to GitHub carries."""
    return {
        "accept": "application/vnd.github+json",
        "authorization": f"Bearer {token}",
        "user-agent": user_agent,
        "x-github-api-version": API_VERSION,
    }


def _comment(comment: LineComment) -> dict[str, object]:
    return {
        "path": comment.path,
        "line": comment.line,
        "side": "RIGHT",
        "body": evidence.without_markers(comment.body),
    }

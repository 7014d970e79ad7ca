"""GitHub: how a review is written for it."""

import json
from urllib.parse import quote

from fencepost.errors import FieldInvalid, ResourceNotFound

from services.publisher.forges import evidence, github_answers
from services.publisher.forges.transport import Transport
from services.publisher.model import (
    Draft,
    LineComment,
    Outcome,
    Place,
    Refused,
    Review,
    Slot,
    Verdict,
)

KIND = "github"
API_VERSION = "2022-11-28"
BODY_LIMIT_CHARACTERS = 65_536
EVENTS = {
    Verdict.COMMENT: "COMMENT",
    Verdict.APPROVE: "APPROVE",
    Verdict.REQUEST_CHANGES: "REQUEST_CHANGES",
}


class GitHub:
    """One instance of GitHub behind the Forge interface."""

    def __init__(
        self,
        transport: Transport,
        *,
        instance: str,
        token: str,
        user_agent: str,
        strict_uncertain: bool,
    ) -> None:
        self._transport = transport
        self._instance = instance
        self._token = token
        self._strict_uncertain = strict_uncertain
        self._headers = {
            "accept": "application/vnd.github+json",
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            "user-agent": user_agent,
            "x-github-api-version": API_VERSION,
        }

    def review_draft(self, place: Place, review: Review, slot: Slot) -> Draft:
        """Keeps P7 (the written side): the marker stands first, and the text can hold none."""
        if (place.forge, place.forge_instance) != (KIND, self._instance):
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
        path = f"{_repo_path(place.repo_name)}/pulls/{place.number}/reviews"
        return Draft("POST", path, json.dumps(content).encode(), evidence=marker)

    async def send(self, draft: Draft) -> Outcome:
        """One request, with the token of this instance."""
        if not self._token:
            return Refused("never sent: no forge token is set (PUBLISHER_FORGE_TOKEN)")
        reply = await self._transport.send(draft, self._headers)
        return github_answers.judge(
            github_answers.without_secret(reply, self._token),
            evidence=draft.evidence,
            strict_uncertain=self._strict_uncertain,
        )

    async def close(self) -> None:
        """Ends its connections."""
        await self._transport.close()


def _repo_path(repo_name: str) -> str:
    """The path of a repository, from which no name can lead away."""
    segments = repo_name.split("/")
    if len(segments) != 2 or any(segment in ("", ".", "..") for segment in segments):
        raise ResourceNotFound(kind="repository", name=repo_name)
    return "/repos/" + "/".join(quote(segment, safe="") for segment in segments)


def _comment(comment: LineComment) -> dict[str, object]:
    return {
        "path": comment.path,
        "line": comment.line,
        "side": "RIGHT",
        "body": evidence.without_markers(comment.body),
    }

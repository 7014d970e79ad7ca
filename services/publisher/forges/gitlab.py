"""GitLab: merge requests, found by the project's id."""

from services.publisher.forges.access import Access
from services.publisher.forges.head_answers import Document, head_of, judge, leaf
from services.publisher.forges.reading import Reader
from services.publisher.heads.model import Asked, Gone, Head, HeadAnswer, Unknown
from shared.schema.states import ChangeRequestState

STATES = {
    "opened": ChangeRequestState.OPEN,
    "locked": ChangeRequestState.OPEN,
    "closed": ChangeRequestState.CLOSED,
    "merged": ChangeRequestState.CLOSED,
}
"""Locked is one that is being merged: if that fails, it is open again."""


class GitLabHeads:
    """Finds heads at one instance; its base URL ends in /api/v4."""

    def __init__(self, reader: Reader, access: Access, *, user_agent: str) -> None:
        self._reader = reader
        self._base_url = access.base_url
        self._token = access.token
        self._headers = {
            "accept": "application/json",
            "authorization": f"Bearer {access.token}",
            "user-agent": user_agent,
        }

    async def find_head(self, asked: Asked) -> HeadAnswer:
        """The head of the project's merge request of this number. Keeps I7, K2."""
        url = f"{self._base_url}/projects/{asked.repo_id}/merge_requests/{asked.number}"
        reply = await self._reader.read(url, self._headers, secret=self._token)
        found = judge(reply, subject="merge request", is_not_found=_is_not_found)
        return found if isinstance(found, Gone | Unknown) else _head(found, asked)


def _head(merge: Document, asked: Asked) -> Head | Unknown:
    if (merge.get("project_id"), merge.get("iid")) != (asked.repo_id, asked.number):
        return Unknown("the answer is of another merge request")
    return head_of(
        repo_name=str(leaf(merge, "references", "full") or "").rpartition("!")[0],
        head_sha=merge.get("sha"),
        state=STATES.get(str(merge.get("state"))),
        base_ref=merge.get("target_branch"),
        draft=merge.get("draft"),
        updated_at=merge.get("updated_at"),
        url=merge.get("web_url"),
    )


def _is_not_found(form: Document) -> bool:
    """Its answer for a project or a merge request; where there is no such API, it says `error`."""
    message = form.get("message")
    return isinstance(message, str) and message.startswith("404 ")

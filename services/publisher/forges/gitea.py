"""Gitea, and Forgejo, which kept its API."""

from services.publisher.forges.access import Access
from services.publisher.forges.head_answers import Document
from services.publisher.forges.pull_heads import PullHeads
from services.publisher.forges.reading import Reader


def gitea_heads(reader: Reader, access: Access, *, user_agent: str) -> PullHeads:
    """Finds heads at this instance; its base URL ends in /api/v1."""
    return PullHeads(
        reader,
        base_url=access.base_url,
        headers={
            "accept": "application/json",
            "authorization": f"token {access.token}",
            "user-agent": user_agent,
        },
        token=access.token,
        is_not_found=_is_not_found,
    )


def _is_not_found(form: Document) -> bool:
    """Its error form has a message and the URL of its own documentation."""
    message, url = form.get("message"), form.get("url")
    return isinstance(message, str) and isinstance(url, str) and bool(message and url)

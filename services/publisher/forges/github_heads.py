"""GitHub: how pull requests are read from it."""

from services.publisher.forges.access import Access
from services.publisher.forges.github import read_headers
from services.publisher.forges.head_answers import Document
from services.publisher.forges.pull_heads import PullHeads
from services.publisher.forges.reading import Reader


def github_heads(reader: Reader, access: Access, *, user_agent: str) -> PullHeads:
    """Finds heads at this instance."""
    return PullHeads(
        reader,
        base_url=access.base_url,
        headers=read_headers(access.token, user_agent),
        token=access.token,
        is_not_found=_is_not_found,
    )


def _is_not_found(form: Document) -> bool:
    """Its error form has a message and the URL of its documentation."""
    message, documentation = form.get("message"), form.get("documentation_url")
    return isinstance(message, str) and isinstance(documentation, str) and bool(documentation)

"""Heads of pull requests, as GitHub, Gitea and Forgejo tell them alike.

The repository is asked for by its id first, and its pull request under the name it has now: a
renamed one is found, and another that took over its name is not mistaken for it.
"""

from collections.abc import Callable, Mapping

from services.publisher.forges.head_answers import Document, head_of, judge, leaf
from services.publisher.forges.paths import repo_path
from services.publisher.forges.reading import Reader
from services.publisher.heads.model import Asked, Gone, Head, HeadAnswer, Unknown
from shared.schema.states import ChangeRequestState

STATES = {"open": ChangeRequestState.OPEN, "closed": ChangeRequestState.CLOSED}


class PullHeads:
    """Finds heads at one instance; what differs between the forges is given."""

    def __init__(
        self,
        reader: Reader,
        *,
        base_url: str,
        headers: Mapping[str, str],
        token: str,
        is_not_found: Callable[[Document], bool],
    ) -> None:
        self._reader = reader
        self._base_url = base_url
        self._headers = headers
        self._token = token
        self._is_not_found = is_not_found

    async def find_head(self, asked: Asked) -> HeadAnswer:
        """The head of the repository's pull request of this number. Keeps I7, K2."""
        repo = await self._read(f"/repositories/{asked.repo_id}", "repository")
        if isinstance(repo, Gone | Unknown):
            return repo
        path = _path_now(repo, asked)
        if path is None:
            return Unknown("the answer names another repository")
        pull = await self._read(f"{path}/pulls/{asked.number}", "pull request")
        return pull if isinstance(pull, Gone | Unknown) else _head(pull, asked)

    async def _read(self, path: str, subject: str) -> Document | Gone | Unknown:
        reply = await self._reader.read(self._base_url + path, self._headers, secret=self._token)
        return judge(reply, subject=subject, is_not_found=self._is_not_found)


def _path_now(repo: Document, asked: Asked) -> str | None:
    full_name = repo.get("full_name")
    if repo.get("id") != asked.repo_id or not isinstance(full_name, str):
        return None
    return repo_path(full_name)


def _head(pull: Document, asked: Asked) -> Head | Unknown:
    if (leaf(pull, "base", "repo", "id"), pull.get("number")) != (asked.repo_id, asked.number):
        return Unknown("the answer is of another pull request")
    return head_of(
        repo_name=leaf(pull, "base", "repo", "full_name"),
        head_sha=leaf(pull, "head", "sha"),
        state=STATES.get(str(pull.get("state"))),
        base_ref=leaf(pull, "base", "ref"),
        draft=pull.get("draft"),
        updated_at=pull.get("updated_at"),
        url=pull.get("html_url"),
    )

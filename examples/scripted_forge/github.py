"""GitHub's REST API, as far as the suite uses it."""

import re
from urllib.parse import urlencode

from starlette.responses import Response

from examples.scripted_forge.bodies import (
    Fields,
    RefusedError,
    comment_body,
    not_a_commit_of_the_pull,
    review_content,
)
from examples.scripted_forge.front import Call, json_answer, now
from examples.scripted_forge.lookup import NOT_FOUND, pull_by_name, repo_by_id, repo_by_name
from examples.scripted_forge.shapes import Shapes
from examples.scripted_forge.store import Page, Pull, Repo, Store

PER_PAGE_DEFAULT = 30
PER_PAGE_MAX = 100


class GitHub:
    """One handler per operation."""

    def __init__(self, store: Store, app_slug: str) -> None:
        self._store = store
        self._app_slug = app_slug

    def get_user(self, call: Call) -> Response:
        """GET /user: the bot."""
        return json_answer(self._shapes(call).bot_profile())

    def get_app(self, call: Call) -> Response:
        """GET /app: the app the bot belongs to."""
        return json_answer(self._shapes(call).app())

    def get_repo(self, call: Call) -> Response:
        """GET /repositories/{id}: where a repository is found whatever it is called."""
        return json_answer(self._shapes(call).repository(repo_by_id(self._store, call)))

    def get_repo_by_name(self, call: Call) -> Response:
        """GET /repos/{owner}/{repo}."""
        return json_answer(self._shapes(call).repository(repo_by_name(self._store, call)))

    def get_pull(self, call: Call) -> Response:
        """GET /repos/{owner}/{repo}/pulls/{number}."""
        repo, pull = self._found(call)
        return json_answer(self._shapes(call).pull(repo, pull))

    def create_review(self, call: Call) -> Response:
        """POST /repos/{owner}/{repo}/pulls/{number}/reviews."""
        repo, pull = self._found(call)
        number = pull.content.number
        review = review_content(Fields.parse(call.body), head_sha=pull.content.head_sha)
        if not self._store.has_commit(repo, number, review.commit_id):
            raise not_a_commit_of_the_pull(review.commit_id)
        stored = self._store.add_review(repo, number, review, at=now())
        return json_answer(self._shapes(call).review(repo, number, stored))

    def list_reviews(self, call: Call) -> Response:
        """GET /repos/{owner}/{repo}/pulls/{number}/reviews."""
        repo, pull = self._found(call)
        number, page = pull.content.number, _page(call)
        reviews = self._store.list_reviews(repo, number, page)
        shown = [self._shapes(call).review(repo, number, review) for review in reviews]
        return json_answer(
            shown, headers=_link(call, page, self._store.count_reviews(repo, number))
        )

    def create_comment(self, call: Call) -> Response:
        """POST /repos/{owner}/{repo}/issues/{number}/comments."""
        repo, pull = self._found(call)
        body = comment_body(Fields.parse(call.body))
        comment = self._store.add_comment(repo, pull.content.number, body, at=now())
        shape = self._shapes(call).comment(repo, pull.content.number, comment)
        return json_answer(shape, 201, {"location": str(shape["url"])})

    def list_comments(self, call: Call) -> Response:
        """GET /repos/{owner}/{repo}/issues/{number}/comments; since narrows, as on GitHub."""
        repo, pull = self._found(call)
        number, page, since = pull.content.number, _page(call), call.query.get("since", "")
        comments = self._store.list_comments(repo, number, since=since, page=page)
        shown = [self._shapes(call).comment(repo, number, comment) for comment in comments]
        total = self._store.count_comments(repo, number, since=since)
        return json_answer(shown, headers=_link(call, page, total))

    def not_found(self, _call: Call) -> Response:
        """Anything else."""
        raise RefusedError(404, NOT_FOUND)

    def _shapes(self, call: Call) -> Shapes:
        return Shapes(call.base_url, self._app_slug)

    def _found(self, call: Call) -> tuple[Repo, Pull]:
        # Every pull request is an issue here and there are no other issues.
        return pull_by_name(self._store, call)


def _page(call: Call) -> Page:
    size = min(_positive(call, "per_page", PER_PAGE_DEFAULT), PER_PAGE_MAX)
    return Page(_positive(call, "page", 1), size)


def _positive(call: Call, name: str, default: int) -> int:
    given = call.query.get(name, "")
    return int(given) if re.fullmatch(r"[1-9]\d{0,8}", given, re.ASCII) else default


def _link(call: Call, page: Page, total: int) -> dict[str, str]:
    last = max(1, -(-total // page.size))
    targets = {
        "prev": page.number - 1 if page.number > 1 else None,
        "next": page.number + 1 if page.number < last else None,
        "last": last if page.number < last else None,
        "first": 1 if page.number > 1 else None,
    }
    url = call.base_url + call.raw_path.partition("?")[0]
    links = [
        f'<{url}?{urlencode({**call.query, "page": number})}>; rel="{relation}"'
        for relation, number in targets.items()
        if number
    ]
    return {"link": ", ".join(links)} if links else {}

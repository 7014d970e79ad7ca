"""The forge's content: repositories, pull requests, reviews, comments. One function a statement."""

import sqlite3
from dataclasses import dataclass

# GitHub's ids have long outgrown 32 bits; whoever stores them too small should find out here.
FIRST_ID = 3_000_000_001


@dataclass(frozen=True)
class Repo:
    """A repository, names as first given; GitHub finds them in any case."""

    id: int
    owner: str
    name: str
    created_at: str


@dataclass(frozen=True)
class PullContent:
    """What a fixture says of a pull request."""

    number: int
    title: str
    state: str
    author: str
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    draft: bool


@dataclass(frozen=True)
class Pull:
    """A pull request with what has been counted on it."""

    content: PullContent
    created_at: str
    updated_at: str
    commits: int
    comments: int
    review_comments: int


@dataclass(frozen=True)
class ReviewContent:
    """What a caller posted as a review; comments is a JSON array."""

    state: str
    body: str
    commit_id: str
    comments: str


@dataclass(frozen=True)
class Review:
    """A stored review."""

    id: int
    content: ReviewContent
    submitted_at: str


@dataclass(frozen=True)
class Comment:
    """A stored issue comment."""

    id: int
    body: str
    created_at: str


@dataclass(frozen=True)
class Page:
    """Which part of a listing is wanted; numbers start at 1."""

    number: int
    size: int

    @property
    def offset(self) -> int:
        """How many rows stand before this page."""
        return (self.number - 1) * self.size


class Store:
    """The statements, on one connection; every write is durable when it returns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put_repo(self, owner: str, name: str, *, repo_id: int | None, at: str) -> Repo:
        """Makes the repository unless it is there, and returns it."""
        self._connection.execute(
            "INSERT INTO repo (id, owner, name, created_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (owner, name) DO NOTHING",
            (repo_id, owner, name, at),
        )
        repo = self.find_repo(owner, name)
        assert repo is not None
        return repo

    def find_repo(self, owner: str, name: str) -> Repo | None:
        """The repository of this name, in any case."""
        row = self._connection.execute(
            "SELECT id, owner, name, created_at FROM repo WHERE owner = ? AND name = ?",
            (owner, name),
        ).fetchone()
        return None if row is None else Repo(*row)

    def find_repo_by_id(self, repo_id: int) -> Repo | None:
        """The repository of this id, whatever it is called."""
        row = self._connection.execute(
            "SELECT id, owner, name, created_at FROM repo WHERE id = ?", (repo_id,)
        ).fetchone()
        return None if row is None else Repo(*row)

    def rename_repo(self, repo: Repo, owner: str, name: str) -> None:
        """Gives it another name; its id and its pulls stay."""
        self._connection.execute(
            "UPDATE repo SET owner = ?, name = ? WHERE id = ?", (owner, name, repo.id)
        )

    def put_pull(self, repo: Repo, pull: PullContent, *, at: str) -> None:
        """Makes or changes a pull request; its earlier heads stay commits of it."""
        self._connection.execute(
            "INSERT INTO pull VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (repo_id, number) DO UPDATE SET title = excluded.title,"
            " state = excluded.state, author = excluded.author, head_ref = excluded.head_ref,"
            " head_sha = excluded.head_sha, base_ref = excluded.base_ref,"
            " base_sha = excluded.base_sha, draft = excluded.draft,"
            " updated_at = excluded.updated_at",
            (
                *(repo.id, pull.number, pull.title, pull.state, pull.author, pull.head_ref),
                *(pull.head_sha, pull.base_ref, pull.base_sha, pull.draft, at, at),
            ),
        )
        self._connection.execute(
            "INSERT INTO pull_commit VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (repo.id, pull.number, pull.head_sha),
        )

    def find_pull(self, repo: Repo, number: int) -> Pull | None:
        """The pull request of this number."""
        row = self._connection.execute(
            "SELECT *,"
            " (SELECT count(*) FROM pull_commit c"
            "  WHERE c.repo_id = p.repo_id AND c.number = p.number) AS commits,"
            " (SELECT count(*) FROM issue_comment c"
            "  WHERE c.repo_id = p.repo_id AND c.number = p.number) AS comments,"
            " (SELECT coalesce(sum(json_array_length(r.comments)), 0) FROM review r"
            "  WHERE r.repo_id = p.repo_id AND r.number = p.number) AS review_comments"
            " FROM pull p WHERE repo_id = ? AND number = ?",
            (repo.id, number),
        ).fetchone()
        return None if row is None else _pull(row)

    def has_commit(self, repo: Repo, number: int, sha: str) -> bool:
        """Whether this commit is or was the pull request's head."""
        row = self._connection.execute(
            "SELECT 1 FROM pull_commit WHERE repo_id = ? AND number = ? AND sha = ?",
            (repo.id, number, sha),
        ).fetchone()
        return row is not None

    def add_review(self, repo: Repo, number: int, review: ReviewContent, *, at: str) -> Review:
        """Stores one review; the same content again is another review, as on GitHub."""
        row = self._connection.execute(
            "INSERT INTO review SELECT coalesce(max(id) + 1, ?), ?, ?, ?, ?, ?, ?, ? FROM review"
            " RETURNING id",
            (
                *(FIRST_ID, repo.id, number, review.state, review.body),
                *(review.commit_id, review.comments, at),
            ),
        ).fetchall()[0]
        return Review(row["id"], review, at)

    def list_reviews(self, repo: Repo, number: int, page: Page) -> list[Review]:
        """One page of a pull request's reviews, oldest first."""
        rows = self._connection.execute(
            "SELECT id, state, body, commit_id, comments, submitted_at FROM review"
            " WHERE repo_id = ? AND number = ? ORDER BY id LIMIT ? OFFSET ?",
            (repo.id, number, page.size, page.offset),
        )
        return [Review(row[0], ReviewContent(*row[1:5]), row[5]) for row in rows]

    def count_reviews(self, repo: Repo, number: int) -> int:
        """How many reviews the pull request has."""
        return self._count(
            "SELECT count(*) FROM review WHERE repo_id = ? AND number = ?", (repo.id, number)
        )

    def add_comment(self, repo: Repo, number: int, body: str, *, at: str) -> Comment:
        """Stores one issue comment."""
        row = self._connection.execute(
            "INSERT INTO issue_comment SELECT coalesce(max(id) + 1, ?), ?, ?, ?, ?"
            " FROM issue_comment RETURNING id",
            (FIRST_ID, repo.id, number, body, at),
        ).fetchall()[0]
        return Comment(row["id"], body, at)

    def list_comments(self, repo: Repo, number: int, *, since: str, page: Page) -> list[Comment]:
        """One page of an issue's comments updated since then (ISO text), oldest first."""
        rows = self._connection.execute(
            "SELECT id, body, created_at FROM issue_comment"
            " WHERE repo_id = ? AND number = ? AND created_at >= ? ORDER BY id LIMIT ? OFFSET ?",
            (repo.id, number, since, page.size, page.offset),
        )
        return [Comment(*row) for row in rows]

    def count_comments(self, repo: Repo, number: int, *, since: str) -> int:
        """How many comments updated since then the issue has."""
        return self._count(
            "SELECT count(*) FROM issue_comment"
            " WHERE repo_id = ? AND number = ? AND created_at >= ?",
            (repo.id, number, since),
        )

    def _count(self, statement: str, values: tuple[object, ...]) -> int:
        return int(self._connection.execute(statement, values).fetchone()[0])


def _pull(row: sqlite3.Row) -> Pull:
    fields = {name: row[name] for name in PullContent.__dataclass_fields__}
    content = PullContent(**{**fields, "draft": bool(row["draft"])})
    counted = ("created_at", "updated_at", "commits", "comments", "review_comments")
    return Pull(content, **{name: row[name] for name in counted})

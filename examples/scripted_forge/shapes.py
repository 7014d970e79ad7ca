"""The forge's content in the shapes GitHub's published description requires."""

from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import quote

from examples.scripted_forge.store import Comment, Pull, Repo, Review

Json = dict[str, object]

APP_MADE_AT = "2024-01-01T00:00:00Z"

USER_LINKS = {
    "followers_url": "followers",
    "following_url": "following{/other_user}",
    "gists_url": "gists{/gist_id}",
    "starred_url": "starred{/owner}{/repo}",
    "subscriptions_url": "subscriptions",
    "organizations_url": "orgs",
    "repos_url": "repos",
    "events_url": "events{/privacy}",
    "received_events_url": "received_events",
}
REPO_LINKS = {
    "archive_url": "{archive_format}{/ref}",
    "assignees_url": "assignees{/user}",
    "blobs_url": "git/blobs{/sha}",
    "branches_url": "branches{/branch}",
    "collaborators_url": "collaborators{/collaborator}",
    "comments_url": "comments{/number}",
    "commits_url": "commits{/sha}",
    "compare_url": "compare/{base}...{head}",
    "contents_url": "contents/{+path}",
    "contributors_url": "contributors",
    "deployments_url": "deployments",
    "downloads_url": "downloads",
    "events_url": "events",
    "forks_url": "forks",
    "git_commits_url": "git/commits{/sha}",
    "git_refs_url": "git/refs{/sha}",
    "git_tags_url": "git/tags{/sha}",
    "hooks_url": "hooks",
    "issue_comment_url": "issues/comments{/number}",
    "issue_events_url": "issues/events{/number}",
    "issues_url": "issues{/number}",
    "keys_url": "keys{/key_id}",
    "labels_url": "labels{/name}",
    "languages_url": "languages",
    "merges_url": "merges",
    "milestones_url": "milestones{/number}",
    "notifications_url": "notifications{?since,all,participating}",
    "pulls_url": "pulls{/number}",
    "releases_url": "releases{/id}",
    "stargazers_url": "stargazers",
    "statuses_url": "statuses/{sha}",
    "subscribers_url": "subscribers",
    "subscription_url": "subscription",
    "tags_url": "tags",
    "teams_url": "teams",
    "trees_url": "git/trees{/sha}",
}
REPO_COUNTS = (
    *("forks", "forks_count", "open_issues", "open_issues_count", "size"),
    *("stargazers_count", "watchers", "watchers_count"),
)
_EMPTY_LISTS: Json = {
    "labels": [],
    "assignees": [],
    "requested_reviewers": [],
    "requested_teams": [],
}


@dataclass(frozen=True)
class Shapes:
    """Renders content for one base URL, posted by one app's bot."""

    base_url: str
    app_slug: str

    def bot(self) -> Json:
        """The app's bot user: the author of everything posted."""
        return self.user(f"{self.app_slug}[bot]", user_id=49_699_333, kind="Bot")

    def bot_profile(self) -> Json:
        """The bot as /user shows it."""
        nothing = dict.fromkeys(
            ("name", "company", "blog", "location", "email", "hireable", "bio"), None
        )
        counts = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
        dates = {"created_at": APP_MADE_AT, "updated_at": APP_MADE_AT}
        return {**self.bot(), "user_view_type": "public", **nothing, **counts, **dates}

    def app(self) -> Json:
        """The app as /app shows it."""
        return {
            "id": 29_310,
            "slug": self.app_slug,
            "node_id": _node_id("App", 29_310),
            "owner": self.user("fencepost-owner", user_id=583_231),
            "name": self.app_slug,
            "description": None,
            "external_url": self.base_url,
            "html_url": f"{self.base_url}/apps/{self.app_slug}",
            "created_at": APP_MADE_AT,
            "updated_at": APP_MADE_AT,
            "permissions": {"metadata": "read", "pull_requests": "write", "issues": "write"},
            "events": ["pull_request", "issue_comment"],
        }

    def user(self, login: str, *, user_id: int = 21_031_067, kind: str = "User") -> Json:
        """A user; people all share one id here, logins tell them apart."""
        url = f"{self.base_url}/users/{quote(login)}"
        page = f"apps/{self.app_slug}" if kind == "Bot" else quote(login)
        return {
            "login": login,
            "id": user_id,
            "node_id": _node_id("User", user_id),
            "avatar_url": f"{self.base_url}/avatars/{user_id}",
            "gravatar_id": "",
            "url": url,
            "html_url": f"{self.base_url}/{page}",
            **{name: f"{url}/{rest}" for name, rest in USER_LINKS.items()},
            "type": kind,
            "site_admin": False,
        }

    def repository(self, repo: Repo) -> Json:
        """A repository, as a pull request's head and base carry it."""
        full_name = f"{repo.owner}/{repo.name}"
        url, html_url = f"{self.base_url}/repos/{full_name}", f"{self.base_url}/{full_name}"
        return {
            "id": repo.id,
            "node_id": _node_id("Repository", repo.id),
            "name": repo.name,
            "full_name": full_name,
            "owner": self.user(repo.owner),
            "url": url,
            "html_url": html_url,
            **{name: f"{url}/{rest}" for name, rest in REPO_LINKS.items()},
            **dict.fromkeys(("clone_url", "git_url", "ssh_url", "svn_url"), f"{html_url}.git"),
            **dict.fromkeys(REPO_COUNTS, 0),
            **dict.fromkeys(("description", "homepage", "language", "license", "mirror_url"), None),
            **dict.fromkeys(("private", "fork", "archived", "disabled"), False),
            **dict.fromkeys(("has_downloads", "has_pages", "has_projects", "has_wiki"), False),
            "has_issues": True,
            "default_branch": "master",
            **dict.fromkeys(("created_at", "updated_at", "pushed_at"), repo.created_at),
        }

    def pull(self, repo: Repo, pull: Pull) -> Json:
        """A pull request in full."""
        content = pull.content
        return {
            "id": repo.id * 1_000 + content.number,
            "node_id": _node_id("PullRequest", content.number),
            "number": content.number,
            "state": content.state,
            "title": content.title,
            "user": self.user(content.author),
            **self._pull_links(repo, pull),
            "head": self._branch(repo, content.head_ref, content.head_sha),
            "base": self._branch(repo, content.base_ref, content.base_sha),
            **dict.fromkeys(("body", "milestone", "active_lock_reason", "assignee"), None),
            **dict.fromkeys(("auto_merge", "merge_commit_sha", "merged_at", "merged_by"), None),
            **_EMPTY_LISTS,
            **dict.fromkeys(("locked", "merged", "maintainer_can_modify"), False),
            "draft": content.draft,
            "mergeable": True,
            "mergeable_state": "clean",
            "additions": 1,
            "deletions": 1,
            "changed_files": 1,
            "author_association": "OWNER",
            "created_at": pull.created_at,
            "updated_at": pull.updated_at,
            "closed_at": pull.updated_at if content.state == "closed" else None,
            "commits": pull.commits,
            "comments": pull.comments,
            "review_comments": pull.review_comments,
        }

    def review(self, repo: Repo, number: int, review: Review) -> Json:
        """A review; a pending one has no submitted_at, as on GitHub."""
        pull_url = f"{self._repo_url(repo)}/pulls/{number}"
        html_url = f"{self._html_url(repo, number)}#pullrequestreview-{review.id}"
        shape: Json = {
            "id": review.id,
            "node_id": _node_id("PullRequestReview", review.id),
            "user": self.bot(),
            "body": review.content.body,
            "state": review.content.state,
            "html_url": html_url,
            "pull_request_url": pull_url,
            "author_association": "NONE",
            "_links": {"html": {"href": html_url}, "pull_request": {"href": pull_url}},
            "commit_id": review.content.commit_id,
        }
        if review.content.state != "PENDING":
            shape["submitted_at"] = review.submitted_at
        return shape

    def comment(self, repo: Repo, number: int, comment: Comment) -> Json:
        """An issue comment."""
        return {
            "id": comment.id,
            "node_id": _node_id("IssueComment", comment.id),
            "url": f"{self._repo_url(repo)}/issues/comments/{comment.id}",
            "html_url": f"{self._html_url(repo, number)}#issuecomment-{comment.id}",
            "issue_url": f"{self._repo_url(repo)}/issues/{number}",
            "user": self.bot(),
            "body": comment.body,
            "created_at": comment.created_at,
            "updated_at": comment.created_at,
            "author_association": "NONE",
            "performed_via_github_app": self.app(),
        }

    def _pull_links(self, repo: Repo, pull: Pull) -> Json:
        number, head_sha = pull.content.number, pull.content.head_sha
        repo_url, html_url = self._repo_url(repo), self._html_url(repo, number)
        pull_url, issue_url = f"{repo_url}/pulls/{number}", f"{repo_url}/issues/{number}"
        related = {
            "commits": f"{pull_url}/commits",
            "review_comments": f"{pull_url}/comments",
            "review_comment": f"{repo_url}/pulls/comments{{/number}}",
            "comments": f"{issue_url}/comments",
            "statuses": f"{repo_url}/statuses/{head_sha}",
            "html": html_url,
            "issue": issue_url,
        }
        return {
            "url": pull_url,
            **{f"{name}_url": url for name, url in related.items()},
            "diff_url": f"{html_url}.diff",
            "patch_url": f"{html_url}.patch",
            "_links": {name: {"href": url} for name, url in {**related, "self": pull_url}.items()},
        }

    def _branch(self, repo: Repo, ref: str, sha: str) -> Json:
        return {
            "label": f"{repo.owner}:{ref}",
            "ref": ref,
            "sha": sha,
            "user": self.user(repo.owner),
            "repo": self.repository(repo),
        }

    def _repo_url(self, repo: Repo) -> str:
        return f"{self.base_url}/repos/{repo.owner}/{repo.name}"

    def _html_url(self, repo: Repo, number: int) -> str:
        return f"{self.base_url}/{repo.owner}/{repo.name}/pull/{number}"


def _node_id(kind: str, number: int) -> str:
    return b64encode(f"{len(kind):03}:{kind}{number}".encode()).decode()

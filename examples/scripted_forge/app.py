"""The parts of the forge put together: which path is answered by what."""

import sqlite3

from starlette.applications import Starlette
from starlette.routing import Route

from examples.scripted_forge import gitea, gitlab
from examples.scripted_forge.connections import Connections
from examples.scripted_forge.front import Front
from examples.scripted_forge.gitea import Gitea
from examples.scripted_forge.github import GitHub
from examples.scripted_forge.gitlab import GitLab
from examples.scripted_forge.journal import Journal
from examples.scripted_forge.script import Script
from examples.scripted_forge.store import Store

EVERY_METHOD = ("GET", "POST", "PUT", "PATCH", "DELETE")


def build_app(
    database: sqlite3.Connection, *, token: str, app_slug: str, connections: Connections
) -> Starlette:
    """The forge as an ASGI app on this database."""
    store, journal = Store(database), Journal(database)
    front = Front(journal, token, connections)
    return Starlette(
        routes=[
            *_script(front, Script(store, journal)),
            *_gitlab(front, GitLab(store)),
            *_gitea(front, Gitea(store)),
            *_github(front, GitHub(store, app_slug)),
        ]
    )


def _script(front: Front, director: Script) -> list[Route]:
    script, repo = front.script, "/_script/repos/{owner}/{repo}"
    return [
        Route(repo, script(director.put_repo), methods=["PUT"]),
        Route(f"{repo}/rename", script(director.rename_repo), methods=["POST"]),
        Route("/_script/faults", script(director.add_fault), methods=["POST"]),
        Route("/_script/faults", script(director.list_faults), methods=["GET"]),
        Route("/_script/faults", script(director.clear_faults), methods=["DELETE"]),
        Route("/_script/requests", script(director.list_requests), methods=["GET"]),
    ]


def _gitlab(front: Front, forge: GitLab) -> list[Route]:
    merge_request = "/api/v4/projects/{id}/merge_requests/{number}"
    answers = {merge_request: forge.get_merge_request}
    return [
        *(Route(at, front.forge(answers[at], gitlab.form), methods=["GET"]) for at in answers),
        Route("/api/v4/{rest:path}", front.forge(forge.not_found), methods=EVERY_METHOD),
    ]


def _gitea(front: Front, forge: Gitea) -> list[Route]:
    answers = {
        "/api/v1/repositories/{id}": forge.get_repo,
        "/api/v1/repos/{owner}/{repo}/pulls/{number}": forge.get_pull,
    }
    rest = front.forge(forge.not_found, gitea.form)
    return [
        *(Route(at, front.forge(answers[at], gitea.form), methods=["GET"]) for at in answers),
        Route("/api/v1/{rest:path}", rest, methods=EVERY_METHOD),
    ]


def _github(front: Front, github: GitHub) -> list[Route]:
    forge = front.forge
    pull, issue = "/repos/{owner}/{repo}/pulls/{number}", "/repos/{owner}/{repo}/issues/{number}"
    return [
        Route("/user", forge(github.get_user), methods=["GET"]),
        Route("/app", forge(github.get_app), methods=["GET"]),
        Route("/repositories/{id}", forge(github.get_repo), methods=["GET"]),
        Route("/repos/{owner}/{repo}", forge(github.get_repo_by_name), methods=["GET"]),
        Route(pull, forge(github.get_pull), methods=["GET"]),
        Route(f"{pull}/reviews", forge(github.create_review), methods=["POST"]),
        Route(f"{pull}/reviews", forge(github.list_reviews), methods=["GET"]),
        Route(f"{issue}/comments", forge(github.create_comment), methods=["POST"]),
        Route(f"{issue}/comments", forge(github.list_comments), methods=["GET"]),
        Route("/{rest:path}", forge(github.not_found), methods=EVERY_METHOD),
    ]

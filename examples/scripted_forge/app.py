"""The parts of the forge put together: which path is answered by what."""

import sqlite3

from starlette.applications import Starlette
from starlette.routing import Route

from examples.scripted_forge.connections import Connections
from examples.scripted_forge.front import Front
from examples.scripted_forge.github import GitHub
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
    forge, script = front.forge, front.script
    github, director = GitHub(store, app_slug), Script(store, journal)
    pull, issue = "/repos/{owner}/{repo}/pulls/{number}", "/repos/{owner}/{repo}/issues/{number}"
    return Starlette(
        routes=[
            Route("/user", forge(github.get_user), methods=["GET"]),
            Route("/app", forge(github.get_app), methods=["GET"]),
            Route(pull, forge(github.get_pull), methods=["GET"]),
            Route(f"{pull}/reviews", forge(github.create_review), methods=["POST"]),
            Route(f"{pull}/reviews", forge(github.list_reviews), methods=["GET"]),
            Route(f"{issue}/comments", forge(github.create_comment), methods=["POST"]),
            Route(f"{issue}/comments", forge(github.list_comments), methods=["GET"]),
            Route("/_script/repos/{owner}/{repo}", script(director.put_repo), methods=["PUT"]),
            Route("/_script/faults", script(director.add_fault), methods=["POST"]),
            Route("/_script/faults", script(director.list_faults), methods=["GET"]),
            Route("/_script/faults", script(director.clear_faults), methods=["DELETE"]),
            Route("/_script/requests", script(director.list_requests), methods=["GET"]),
            Route("/{rest:path}", forge(github.not_found), methods=EVERY_METHOD),
        ]
    )

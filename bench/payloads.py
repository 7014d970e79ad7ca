"""What is submitted: small pull_request events of GitHub's shape, each of another pull request."""

import hashlib
import itertools
import json
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

SECRET = "a secret for these measurements alone"
EVENT = "pull_request"
MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A body, and the id that its source gave it."""

    delivery_id: str
    body: bytes


def deliveries(*, text: str = "") -> Iterator[Delivery]:
    """Without end, of a repository of their own; `text` stands in each as its description."""
    repo_id = random.randrange(1, 2**40)
    before, after = json.dumps(_event(repo_id, text)).encode().split(b'"here"')
    for number in itertools.count(1):
        sha = hashlib.sha1(b"%d %d" % (repo_id, number), usedforsecurity=False).hexdigest()
        own = b'%d, "head": {"sha": "%s", "repo": {"id": %d}}' % (number, sha.encode(), repo_id)
        yield Delivery(delivery_id=str(uuid.uuid4()), body=before + own + after)


def one_text() -> str:
    """One body as text, for those who are given the same to keep."""
    return next(deliveries()).body.decode()


def large(size_bytes: int, count: int) -> list[Delivery]:
    """Bodies of about this size."""
    made = deliveries(text="x" * size_bytes)
    return [next(made) for _ in range(count)]


def _event(repo_id: int, text: str) -> dict[str, object]:
    return {
        "action": "opened",
        "pull_request": {
            "number": "here",
            "state": "open",
            "draft": False,
            "title": "Widgets are spun the other way round",
            "body": text,
            "html_url": "https://github.com/acme/widgets/pull/1",
            "updated_at": "2026-05-01T12:00:00Z",
            "base": {"ref": "main", "sha": "0" * 40},
        },
        "repository": {"id": repo_id, "full_name": "acme/widgets", "private": True},
        "sender": {"id": 1001, "login": "octavia", "type": "User"},
        "installation": {"id": 4711},
    }

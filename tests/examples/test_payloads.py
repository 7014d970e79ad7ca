"""The recorded payloads are the published bytes, and our signature of them is GitHub's."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.signing import github_signature

FOLDER = Path(__file__).parents[1] / "payloads" / "github"
ACTIONS = ("closed", "opened", "reopened", "synchronize")


def _payload(action: str) -> bytes:
    return (FOLDER / f"pull_request.{action}.json").read_bytes()


@pytest.mark.parametrize("action", ACTIONS)
def test_a_payload_is_a_pull_request_event_of_its_action(action: str) -> None:
    payload = json.loads(_payload(action))

    assert payload["action"] == action
    assert payload["pull_request"]["number"] == payload["number"] == 2
    assert len(payload["pull_request"]["head"]["sha"]) == 40
    assert payload["installation"]["id"] == 1
    assert payload["repository"]["full_name"] == "Codertocat/Hello-World"


def test_no_byte_of_the_payloads_has_changed_since_they_were_taken() -> None:
    notice = (FOLDER / "NOTICE").read_text(encoding="utf-8")
    lines = re.findall(r"^([0-9a-f]{64})  (\S+)$", notice, re.MULTILINE)
    taken = {name: digest for digest, name in lines}

    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in FOLDER.glob("*.json")
    }

    assert found == taken
    assert set(found) == {f"pull_request.{action}.json" for action in ACTIONS}


# Recorded from `await sign(secret, payload)` of the npm package @octokit/webhooks-methods 6.0.0
# under Node.js 20; the first is also in its README, the second in GitHub's own documentation
# ("Validating webhook deliveries").
@pytest.mark.parametrize(
    ("secret", "body", "signature"),
    [
        (
            "mysecret",
            '{"foo":"bar"}',
            "sha256=4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3",
        ),
        (
            "It's a Secret to Everybody",
            "Hello, World!",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        ),
        (
            "clé-🔑",
            '{"title":"naïve \u2013 修正 🚀"}',
            "sha256=1ceac07969277067566eefac2fa9e01f492ee735145fc62b794f83a0075db02e",
        ),
        (
            "s",
            ' {\n "spaces" : 1 }\n',
            "sha256=6d69f389c62889bba4678974a4092094f8e9fc7344172c66a50551e4eb50af84",
        ),
    ],
)
def test_the_signature_is_the_one_octokit_makes(secret: str, body: str, signature: str) -> None:
    assert github_signature(secret.encode(), body.encode()) == signature


# Recorded in the same way, with the secret "octokit-judges-us" over each file's text.
@pytest.mark.parametrize(
    ("action", "signature"),
    [
        ("opened", "sha256=c5e0ce10067031d19828e067b547522535364cbedfc2c40db22c6b6caf88c9a4"),
        ("synchronize", "sha256=e4ea78bf1292919928b6d600d66dae727e363030e651a36b9e4372d1ec9bbcf2"),
        ("closed", "sha256=32e2cfaa6ac367cdce354e03a6f14e3362d7ec11b22bfc34d2c449564e36cfab"),
        ("reopened", "sha256=7f0b29ee480693047ce8b835fc7815406d8e2af583f5debde68bd2d841a5cffd"),
    ],
)
def test_a_payloads_signature_is_the_one_octokit_makes(action: str, signature: str) -> None:
    assert github_signature(b"octokit-judges-us", _payload(action)) == signature

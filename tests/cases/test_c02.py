"""A webhook sent as a form is the same as its JSON twin, and never taken in empty."""

from urllib.parse import quote_plus

import pytest

from tests.cases.stored import bodies, projection, refusals
from tests.services.ingress.pulls import pull
from tests.services.ingress.webhooks.posting import Door, signed

FORM = "application/x-www-form-urlencoded; charset=utf-8"
TWIN = pull(number=9, title="1 + 1 & 100% caf\u00e9")
PAYLOAD = b"payload=" + quote_plus(TWIN).encode()


@pytest.mark.guarantee("I10")
def test_a_form_reads_like_its_json_twin(github: Door) -> None:
    form = github.post(PAYLOAD, signed(PAYLOAD, x_github_delivery="form", content_type=FORM))
    twin = github.post(TWIN, signed(TWIN, x_github_delivery="twin"))
    assert (form.status_code, twin.json()["matched"]) == (202, "key")
    assert projection(github, "form") == projection(github, "twin")
    assert bodies(github, "form") == [PAYLOAD]


VARIANTS = {
    "two-payloads": (PAYLOAD + b"&payload=%7B%7D", "payload", "once, not 2 times"),
    "no-payload": (b"other=1", "payload", "once, not 0 times"),
    "json-called-a-form": (TWIN, "body", "must be a form"),
}


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_no_such_form_is_refused_for_its_own_reason(github: Door, name: str) -> None:
    body, field, sentence = VARIANTS[name]
    answer = github.post(body, signed(body, x_github_delivery=name, content_type=FORM))
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert sentence in answer.json()["message"]
    assert refusals(github, name) == [("FIELD_INVALID", field, body)]

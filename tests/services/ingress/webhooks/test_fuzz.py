"""Whatever is sent, in whatever headers and encoding: an answer, and rows of what was proven."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingress.endpoints.model import ForgeKind
from services.ingress.webhooks.door import FORGES
from tests.database_server import DatabaseServer
from tests.services.ingress.odd_documents import (
    EVENTS,
    VALUES,
    changed_cases,
    documents,
    patient,
)
from tests.services.ingress.pulls import SECRET
from tests.services.ingress.webhooks.gitlab_posting import TOKEN, signature
from tests.services.ingress.webhooks.in_process import ENDPOINTS, InProcess, in_process
from tests.services.ingress.webhooks.posting import Change, as_sent
from tests.signing import bare_signature, github_signature

JSON, FORM = "application/json", "application/x-www-form-urlencoded"

Proof = dict[str, Change]

PROOFS: dict[str, Callable[[bytes, str, int], Proof]] = {
    "forgejo": lambda body, *_: {"x-forgejo-signature": bare_signature(SECRET.encode(), body)},
    "gitea": lambda body, *_: {"x-gitea-signature": bare_signature(SECRET.encode(), body)},
    "github": lambda body, *_: {"x-hub-signature-256": github_signature(SECRET.encode(), body)},
    "signed": signature,
    "token": lambda *_: {"x-gitlab-token": TOKEN},
}
"""What proves a body with its delivery's id and time, by endpoint."""

WRONGS: dict[str, Callable[[str], Change]] = {
    "missing": lambda _: None,
    "empty": lambda _: "",
    "cut": lambda right: right[:-1],
    "doubled": lambda right: [right.encode(), right.encode()],
    "other": lambda right: right[:-2] + ("00" if right[-2:] != "00" else "11"),
    "not ASCII": lambda right: right.encode() + b"\xe9",
}
"""How one header of a proof can be wrong."""

ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "UTF-8": lambda text: text.encode("utf-8", "surrogatepass"),
    "UTF-8 with a mark": lambda text: text.encode("utf-8-sig", "surrogatepass"),
    "UTF-16": lambda text: text.encode("utf-16", "surrogatepass"),
    "form": lambda text: b"payload=" + quote_plus(text, errors="replace").encode(),
    "two in a form": lambda text: b"payload=%7B%7D&payload=" + quote_plus(text[:50]).encode(),
    "half": lambda text: text[: len(text) // 2].encode("utf-8", "surrogatepass"),
    "nested": lambda _: b'{"a":' * 9000 + b"1" + b"}" * 9000,
    "not a number": lambda _: b'{"action": NaN}',
}
TYPES: list[Change] = [f"{JSON}; charset=utf-8", FORM, "application/x+json", "text/x"]
CONTENT_TYPES = st.sampled_from([*TYPES, *[JSON] * 8])
WRONG = st.none() | st.none() | st.sampled_from(sorted(WRONGS))

ODD_VALUES: st.SearchStrategy[Change] = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.lists(st.binary(max_size=5), min_size=2, max_size=2),
    st.sampled_from(["", "gzip", "identity", "0", "10", "99999999999", "100-continue", "x" * 300]),
)


@dataclass(frozen=True)
class Sent:
    """A request; `wrong` is how one of the headers that prove it is to be wrong, if any is."""

    name: str
    event: str
    delivery_id: str
    body: bytes
    odd: dict[str, Change]
    wrong: str | None
    pieces: int

    def headers(self, at_s: int) -> dict[str, Change]:
        """What it is sent with; what proves it is changed only where it is to be wrong."""
        forge = FORGES[ENDPOINTS[self.name].forge, ENDPOINTS[self.name].proof]
        proof = PROOFS[self.name](self.body, self.delivery_id, at_s)
        if self.wrong is not None:
            [*_, header] = proof
            proof[header] = WRONGS[self.wrong](str(proof[header]))
        event = self.event
        if ENDPOINTS[self.name].forge == "gitlab":
            event = f"{event.replace('_', ' ').title()} Hook"
        named: dict[str, Change] = {
            forge.event_header: event,
            forge.delivery_header: self.delivery_id,
            "content-type": JSON,
        }
        return named | self.odd | proof


INVENTED = st.tuples(st.sampled_from(EVENTS), documents(VALUES))
CASES = {kind: changed_cases(kind, VALUES) for kind in ForgeKind}
HEADERS = {
    name: st.dictionaries(
        st.sampled_from(
            [
                *(FORGES[endpoint.forge, endpoint.proof].event_header, "x-github-event"),
                *(FORGES[endpoint.forge, endpoint.proof].delivery_header, "x-gogs-event"),
                *("content-type", "content-encoding", "content-length", "traceparent", "expect"),
            ]
        ),
        ODD_VALUES,
        max_size=2,
    )
    for name, endpoint in ENDPOINTS.items()
}
"""Made once, as all that is drawn from: to make it takes as long as to draw."""
ENCODED = st.sampled_from([*ENCODINGS, *["UTF-8"] * 24])
BODIES = ENCODED | ENCODED | ENCODED | ENCODED | st.binary(max_size=40)
IDS = st.uuids().map(str) | st.sampled_from(["d-1", "d-2"])


@st.composite
def requests(draw: st.DrawFn, name: str) -> Sent:
    changed = CASES[ENDPOINTS[name].forge]
    event, document = draw(changed | changed | INVENTED)
    text = json.dumps(document, ensure_ascii=draw(st.booleans()))
    body = draw(BODIES)
    return Sent(
        name=name,
        event=event,
        delivery_id=draw(IDS),
        body=body if isinstance(body, bytes) else ENCODINGS[body](text),
        odd={"content-type": draw(CONTENT_TYPES), **draw(HEADERS[name])},
        wrong=draw(WRONG),
        pieces=draw(st.integers(1, 3)),
    )


REQUESTS = {name: requests(name) for name in ENDPOINTS}


@pytest.fixture(scope="module")
def door(database_server: DatabaseServer) -> Iterator[InProcess]:
    with in_process(database_server) as door:
        yield door


@pytest.mark.guarantee("I5", "I8", "X4")
@pytest.mark.parametrize("name", ENDPOINTS)
@patient(1 / len(ENDPOINTS), few=20, shrinks=False)
@given(data=st.data())
def test_every_request_is_answered_and_only_what_is_proven_leaves_rows(
    door: InProcess, name: str, data: st.DataObject
) -> None:
    sent, before = data.draw(REQUESTS[name]), door.written()
    size = len(sent.body) // sent.pieces + 1
    pieces = [sent.body[at : at + size] for at in range(0, len(sent.body), size)]
    status = door.post(sent.name, as_sent(sent.headers(door.now_s)), pieces)
    assert status < 500
    if sent.wrong is None:
        assert status != 401
    else:
        assert status in (401, 413)
        assert door.written() == before

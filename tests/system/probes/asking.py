"""How another tenant's id is presented to an RPC, and what must come back (X8)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.errors import FencepostError
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from tests.rows import Rows
from tests.system.tenants import Theirs, answer, calling


@dataclass(frozen=True)
class Ours:
    """Our tenant, with a key that may do everything; `named` is the tenant that our calls name."""

    rows: Rows
    key: str
    named: str | None = None


Ask = Callable[[Ours, Theirs, MethodDescriptor, str], Awaitable[Sequence[Message]]]
"""Presents what is theirs to the method at an address; the answers."""


@dataclass(frozen=True)
class Probe:
    """One way to ask, in words; what is refused, or that an answer shows nothing of theirs."""

    what: str
    ask: Ask
    refused: type[FencepostError] | None = None
    kind: str = ""
    shows_nothing: Callable[[Sequence[Any], Theirs], bool] = lambda _answer, _theirs: True


def presenting(request: Callable[[Theirs], Message]) -> Ask:
    """Sends one request."""

    async def ask(
        ours: Ours, theirs: Theirs, method: MethodDescriptor, address: str
    ) -> Sequence[Message]:
        async with calling(address, ours.key, tenant=ours.named) as channel:
            return [await answer(channel, method, request(theirs))]

    return ask

"""Ends open streams whose key was revoked or has expired; new calls see it by themselves (X2)."""

from fencepost.errors import KeyRevoked

from shared.rpc.authentication import Authenticator
from shared.rpc.open_calls import OpenCalls
from shared.ticking import Ticker

KEY_WATCH_MS = 1_000
"""With the time of a lookup well below the 5 s within which a revocation holds everywhere."""


def key_watch(calls: OpenCalls, authenticator: Authenticator) -> Ticker:
    """Looks at the keys of all open streams in one statement a period.

    While the database is away nothing is known to be revoked, and streams stay open (L7).
    """

    async def tick() -> None:
        keys = calls.stream_keys()
        if keys:
            calls.end_streams(await authenticator.ended(keys), KeyRevoked())

    return Ticker("key watch", period_ms=KEY_WATCH_MS, tick=tick)

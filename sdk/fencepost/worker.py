"""A worker: takes dispatches, runs a handler for each, and stops in good order."""

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Self, TypedDict, TypeVar, Unpack

import fencepost
from fencepost import environment as variables
from fencepost.attempt import Attempt, Handler
from fencepost.channel import Channel, ChannelSettings, connect
from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import FencepostError
from fencepost.outbox import CREDIT_MAX
from fencepost.run import Run, Services
from fencepost.session import Handlers, Session
from fencepost.stopping import stopped_by_signals
from fencepost.tls import CertificateUnreadableError, Tls, TlsFiles

CONCURRENCY: Final = 10
DRAIN_S = 7.0
RELEASE_S = 1.0
CLOSE_S = 1.0
EXIT_S = 9.5
"""After a signal, for everything together (C5)."""

log = logging.getLogger("fencepost.worker")

HandlerT = TypeVar("HandlerT", bound=Callable[[Run], Awaitable[bytes | None]])


class Options(TypedDict, total=False):
    """What `Worker.from_environment` passes on."""

    service_name: str
    version: str
    concurrency: int
    tls: Tls | TlsFiles | None
    allow_plaintext: bool


class Worker:
    """Runs one handler on the dispatches of some queues, up to `concurrency` at once.

    The handler is a coroutine function of one `Run`. What it returns is the result (bytes, at most
    64 KiB); what it raises is the failure, whose kind the dispatcher is told: PermanentError,
    DeterministicError, RetryLaterError, else one that may work next time. Leases are renewed on the
    same event loop: a handler that blocks it for a third of the lease's time is not renewed in
    time, so it must not compute or wait for long without `await` (`asyncio.to_thread` helps). A
    handler whose lease is lost is cancelled, and what it would write then is refused here.
    """

    def __init__(
        self,
        *,
        dispatcher: str,
        queues: Sequence[str],
        publisher: str | None = None,
        api_key: str | None = None,
        service_name: str = "fencepost-worker",
        version: str = "",
        concurrency: int = CONCURRENCY,
        tls: Tls | TlsFiles | None = None,
        allow_plaintext: bool = False,
    ) -> None:
        if not 1 <= concurrency <= CREDIT_MAX:
            raise ValueError(f"concurrency must be between 1 and {CREDIT_MAX}")
        self._reach = {
            target: ChannelSettings(
                target=target, api_key=api_key, tls=tls, allow_plaintext=allow_plaintext
            )
            for target in (dispatcher, publisher)
            if target
        }
        self._dispatcher = dispatcher
        self._publisher = publisher
        self._queues = list(queues)
        self._service_name = service_name
        self._version = version or fencepost.__version__
        self._concurrency = concurrency
        self._handler: Handler | None = None
        self._attempts: dict[tuple[int, int], Attempt] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = asyncio.Event()

    @classmethod
    def from_environment(cls, *, queues: Sequence[str], **options: Unpack[Options]) -> Self:
        """What `fencepost.environment` lists for a worker: addresses, key, TLS.

        Raises ValueError, which says what is missing, wrong or set twice.
        """
        environment = os.environ  # noqa: TID251 - a bot's configuration is its environment
        dispatcher = environment.get(variables.DISPATCHER)
        if not dispatcher:
            raise ValueError(f"{variables.DISPATCHER} must be set: host:port of the dispatcher")
        options.setdefault("tls", variables.tls_files(environment))
        options.setdefault("allow_plaintext", variables.calls_plaintext(environment))
        return cls(
            dispatcher=dispatcher,
            publisher=environment.get(variables.PUBLISHER),
            api_key=_api_key(environment),
            queues=queues,
            **options,
        )

    def handle(self, handler: HandlerT) -> HandlerT:
        """Decorator: this coroutine function does the work; what it returns is the result."""
        self._handler = handler
        return handler

    def stop(self) -> None:
        """Begins to drain: no new dispatches, what runs may finish for DRAIN_S."""
        self._stopping.set()

    def main(self) -> None:
        """`run` for a program of its own; raises SystemExit with what the key will meet again.

        After a signal the whole program is over within EXIT_S, its threads included.
        """
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        try:
            asyncio.run(self._run(whole_process=True))
        except (FencepostError, CertificateUnreadableError) as refused:
            raise SystemExit(f"the worker cannot go on: {refused}") from refused

    async def run(self) -> None:
        """Works until SIGTERM, SIGINT or `stop`; raises what the same key will meet again.

        What still runs DRAIN_S after that is cancelled and given back, no attempt charged. After a
        signal this ends within EXIT_S; a handler that hangs takes the process with it.
        """
        await self._run(whole_process=False)

    async def _run(self, *, whole_process: bool) -> None:
        if self._handler is None:
            raise ValueError("the worker has no handler: decorate one with @worker.handle")
        self._say_what_it_serves()
        async with AsyncExitStack() as stack:
            channels = {
                target: await stack.enter_async_context(connect(settings))
                for target, settings in self._reach.items()
            }
            self._open(channels)
            with stopped_by_signals(self.stop, within_s=EXIT_S, whole_process=whole_process):
                await self._work()

    def _say_what_it_serves(self) -> None:
        queues = ", ".join(self._queues)
        log.info("takes work of %s from %s", queues, self._dispatcher)
        if self._publisher is None:
            log.warning("no publisher is named: this worker can publish nothing")

    def _open(self, channels: Mapping[str, Channel]) -> None:
        dispatcher = channels[self._dispatcher]
        self._services = Services.over(
            dispatcher, channels[self._publisher] if self._publisher else None
        )
        self._session = Session(
            dispatcher,
            queues=self._queues,
            version=self._version,
            labels={"service.name": self._service_name},
            handlers=Handlers(
                dispatched=self._begin,
                cancelled=self._on_cancel,
                free_slots=lambda: self._concurrency - len(self._attempts),
                held=lambda: list(self._attempts.values()),
            ),
        )

    async def _work(self) -> None:
        serving = asyncio.create_task(self._session.run())
        try:
            await self._until(self._stopping, serving)
            self._session.drain()
            if not await self._until(self._idle, serving, within_s=DRAIN_S):
                for attempt in list(self._attempts.values()):
                    attempt.stop()
                await self._until(self._idle, serving, within_s=RELEASE_S)
        finally:
            await self._wind_up(serving)

    async def _until(
        self, event: asyncio.Event, serving: "asyncio.Task[None]", within_s: float | None = None
    ) -> bool:
        """Waits for the event; raises what ended the session before it."""
        waiting = asyncio.create_task(event.wait())
        try:
            await asyncio.wait(
                {waiting, serving}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED
            )
            if serving.done():
                serving.result()
            return event.is_set()
        finally:
            waiting.cancel()

    async def _wind_up(self, serving: "asyncio.Task[None]") -> None:
        self._stopping.set()
        left = {asyncio.create_task(each.abandon()) for each in self._attempts.values()}
        self._session.close()
        _, late = await asyncio.wait({serving, *left}, timeout=CLOSE_S)
        serving.cancel()
        await asyncio.wait({serving})
        if hanging := late & left:
            raise RuntimeError(f"{len(hanging)} handlers ignore that they were cancelled")

    def _begin(self, dispatch: work_pb2.Dispatch) -> None:
        identity = (dispatch.intent_id, dispatch.fence.epoch)
        if identity in self._attempts:
            return
        self._lose_older(dispatch)
        assert self._handler is not None
        attempt = Attempt(
            dispatch, handler=self._handler, services=self._services, session=self._session
        )
        self._idle.clear()
        self._attempts[identity] = attempt
        attempt.task.add_done_callback(lambda task: self._ended(identity, task))
        if self._stopping.is_set():
            attempt.stop()

    def _lose_older(self, dispatch: work_pb2.Dispatch) -> None:
        """A later epoch of the same key says that the earlier one is lost."""
        named = (dispatch.fence.key, dispatch.fence.action)
        for attempt in self._attempts.values():
            fence = attempt.dispatch.fence
            if (fence.key, fence.action) == named and fence.epoch < dispatch.fence.epoch:
                attempt.lose("its lease was granted anew")

    def _ended(self, identity: tuple[int, int], task: "asyncio.Task[None]") -> None:
        del self._attempts[identity]
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("intent %d: its outcome is lost", identity[0], exc_info=fault)
        if not self._attempts:
            self._idle.set()
        self._session.top_up()

    def _on_cancel(self, cancel: work_pb2.Cancel) -> None:
        if attempt := self._attempts.get((cancel.intent_id, cancel.epoch)):
            attempt.lose(f"cancelled: {cancel.reason}")


_ONE_CREDENTIAL = re.compile(r"[!-<>-~]+")
"""Printable and without "=": a file of several variables is not a credential."""


def _api_key(environment: Mapping[str, str]) -> str | None:
    names = (variables.API_KEY, variables.API_KEY_FILE)
    key, key_file = (environment.get(name) for name in names)
    if key and key_file:
        raise ValueError(f"{' and '.join(names)} are both set: keep one")
    found = Path(key_file).read_text(encoding="utf-8").strip() if key_file else key
    if found and not _ONE_CREDENTIAL.fullmatch(found):
        where = f"the file of {names[1]} ({key_file})" if key_file else names[0]
        raise ValueError(f"{where} must hold one credential, fp_<id>_<secret>, and nothing else")
    return found

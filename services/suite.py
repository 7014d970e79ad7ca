"""The whole suite on one machine: database, schema, first keys, and four services as children."""

import hashlib
import hmac
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Literal, Self

from services.bootstrap import bootstrap
from services.data_files import (
    SuiteError,
    first_keys_text,
    make_folder,
    roles_key,
    sealing_keys,
)
from services.first_keys import digests, first_keys, read_text
from services.handover import FileHandover, OutputExistsError
from services.processes import Running, start_service
from services.surroundings import SEALING, choose_addresses, environment_of, reserved_ports
from shared.embedded import EmbeddedPostgres
from shared.schema.grants import SERVICES, Service
from shared.schema.migrate import migrate
from shared.schema.roles import passwords_in, url_as

READY_TIMEOUT_S = 60.0
POLL_S = 0.02
WATCH_PERIOD_S = 0.5
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})

Logs = Literal["files", "here"]


class Suite:
    """Runs while the block runs; start it from the main thread.

    `environment` is what the user has set: settings of services by their own variables, which
    reach that service alone. Raises SuiteError, EmbeddedPostgresError, MigrationRefusedError,
    BootstrapRefusedError or HandoverRefusedError, each with a sentence.
    """

    def __init__(
        self,
        data_folder: Path,
        *,
        environment: Mapping[str, str] = NO_VARIABLES,
        database_url: str | None = None,
        service_urls: Mapping[Service, str] | None = None,
        tenant: str = "default",
        free_ports: bool = False,
        logs: Logs = "files",
    ) -> None:
        """Without `database_url`, the owner's, a database of its own lives in the data folder."""
        self._folder = data_folder.absolute()
        self._environment = dict(environment)
        self._owner_url = database_url
        self._service_urls = dict(service_urls or {})
        self.tenant = tenant
        self._logs: Logs = logs
        self._parts = ExitStack()
        self._database: EmbeddedPostgres | None = None
        self._running: dict[Service, Running] = {}
        self._credentials: dict[str, str] = {}
        self._hurried = False
        self._free_ports = free_ports
        self.addresses = choose_addresses(self._environment)

    def __enter__(self) -> Self:
        with self._parts as parts:
            self._start(parts)
            self._parts = parts.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._parts.close()

    @property
    def owner_url(self) -> str:
        """The database as its owner, password included."""
        assert self._owner_url is not None, "known once the suite has started"
        return self._owner_url

    @property
    def database(self) -> EmbeddedPostgres | None:
        """The database in the data folder; None: it is the user's."""
        return self._database

    @property
    def service_urls(self) -> Mapping[Service, str]:
        """The database as each service, password included."""
        return self._service_urls

    @property
    def credentials(self) -> Mapping[str, str]:
        """The first keys by variable, as far as they stand in the keys file."""
        return self._credentials

    @property
    def keys_file(self) -> Path:
        """The first keys, mode 0600."""
        return self._folder / "keys.env"

    @property
    def logs_folder(self) -> Path:
        """A log file for each service."""
        return self._folder / "logs"

    @property
    def process_ids(self) -> Mapping[Service, int]:
        """The services' processes."""
        return {service: running.process.pid for service, running in self._running.items()}

    def check(self) -> None:
        """Raises SuiteError, which says why, when a part has ended by itself."""
        for running in self._running.values():
            if running.ending:
                raise SuiteError(running.ending)
        if self._database is not None and self._database.process_id is None:
            raise SuiteError(f"The database has ended: see its log, {self._database.log_file}.")

    def wait(self) -> None:
        """Returns never: raises SuiteError when a part has ended by itself."""
        while True:
            self.check()
            threading.Event().wait(WATCH_PERIOD_S)

    def _start(self, parts: ExitStack) -> None:
        make_folder(self._folder)
        if self._free_ports:
            ports = parts.enter_context(reserved_ports())
            self.addresses = choose_addresses(self._environment, ports=ports)
        replaceable = self._owner_url is None
        if self._owner_url is None:
            self._database = parts.enter_context(EmbeddedPostgres(self._folder / "postgres"))
            self._owner_url = self._database.url
        self._migrate(replace_passwords=replaceable)
        self._make_keys()
        # Stopped in reverse: first nothing comes in, last nobody watches.
        for service in reversed(SERVICES):
            running = self._start_service(service)
            self._running[service] = running
            parts.callback(self._stop_service, running)
        self._wait_until_ready()

    def _migrate(self, *, replace_passwords: bool) -> None:
        for service in set(SERVICES) - self._service_urls.keys():
            url = url_as(self.owner_url, service, self._password(service))
            self._service_urls[service] = url
        migrate(
            self.owner_url,
            role_passwords=passwords_in(self._service_urls),
            replace_passwords=replace_passwords,
        )

    def _password(self, service: Service) -> str:
        """The same at each start, so that services of an earlier one are not locked out."""
        key = roles_key(self._folder / "roles.key")
        return hmac.new(key, service.encode(), hashlib.sha256).hexdigest()

    def _make_keys(self) -> None:
        handover = FileHandover(self.keys_file)
        try:
            url = self._service_urls["watchdog"]
            outcome = bootstrap(url, tenant=self.tenant, handover=handover)
        except OutputExistsError as exists:
            raise SuiteError(self._foreign_keys()) from exists
        text = first_keys_text(self.keys_file)
        if not digests(text).items() <= outcome.stored.items():
            raise SuiteError(self._foreign_keys())
        self._credentials = read_text(text)
        if missing := self._missing_keys():
            raise SuiteError(
                f"There is no {' and no '.join(missing)} in {self.keys_file}, and keys made before "
                f"are not shown again: put the file back, or set {' and '.join(missing)}, "
                "or the same with _FILE."
            )

    def _missing_keys(self) -> list[str]:
        """Variables of the services' own keys that nobody has set."""
        needed = [key.variable for key in first_keys(self.tenant) if key.label in SERVICES]
        return [v for v in needed if v not in self._credentials and not self._is_given(v)]

    def _is_given(self, variable: str) -> bool:
        return any(self._environment.get(f"{variable}{end}") for end in ("", "_FILE"))

    def _foreign_keys(self) -> str:
        return (
            f"Not all keys in {self.keys_file} are of this database: take out the lines of those "
            "that were removed from it, or move the file away, or use the database that it was "
            "made for."
        )

    def _start_service(self, service: Service) -> Running:
        environment = environment_of(
            service,
            self._environment,
            addresses=self.addresses,
            database_url=self._service_urls[service],
            api_key=self._credentials.get(f"{service.upper()}_API_KEY"),
            sealing_keys=self._sealing_keys(service),
        )
        log_file = self.logs_folder / f"{service}.log" if self._logs == "files" else None
        admin_address = self.addresses.admin[service]
        return start_service(service, environment, admin_address=admin_address, log_file=log_file)

    def _sealing_keys(self, service: Service) -> str | None:
        """Made once: without them the secrets that are stored open to nobody."""
        if service not in SEALING or self._is_given(f"{service.upper()}_SEALING_KEYS"):
            return None
        return sealing_keys(self._folder / f"{service}-sealing.keys")

    def _stop_service(self, running: Running) -> None:
        if self._hurried:
            running.kill()
            return
        try:
            in_time = running.stop()
        except KeyboardInterrupt:
            # Asked a second time: nothing is waited for any more.
            self._hurried = True
            running.kill()
            raise
        if not in_time:
            raise SuiteError(f"{running.service} did not stop by itself and was killed.")

    def _wait_until_ready(self) -> None:
        waiting = set(SERVICES)
        give_up_at = time.monotonic() + READY_TIMEOUT_S
        while waiting:
            self.check()
            waiting -= {s for s in waiting if self._running[s].is_ready()}
            if waiting and time.monotonic() >= give_up_at:
                raise SuiteError(
                    f"Not ready within {READY_TIMEOUT_S:.0f} s: {', '.join(sorted(waiting))}; "
                    f"see http://{self.addresses.admin[min(waiting)]}/readyz and the logs."
                )
            threading.Event().wait(POLL_S)


__all__ = ["Suite", "SuiteError"]

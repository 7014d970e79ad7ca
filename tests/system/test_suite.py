"""The launcher with real processes: what runs, what it says when a part ends, what is left."""

import http.client
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psycopg
import pytest

from services.first_keys import read_text
from services.suite import Suite, SuiteError
from services.surroundings import choose_addresses, reserved_ports
from shared.schema.grants import SERVICES, Service
from shared.schema.refusals import PasswordDiffersError
from tests.waiting import until_sync

KEYS = {"OPERATOR_API_KEY", "INGRESS_API_KEY", "DISPATCHER_API_KEY", "WORKER_API_KEY"}


def exists(process_id: int) -> bool:
    """Whether the process lives; one that only waits to be reaped does not."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def environment_of(process_id: int) -> dict[str, str]:
    """What the process was started with."""
    raw = Path(f"/proc/{process_id}/environ").read_bytes().decode()
    return dict(pair.split("=", 1) for pair in raw.split("\0") if "=" in pair)


def readyz(address: str) -> int:
    """Status of the readiness."""
    connection = http.client.HTTPConnection(address, timeout=5)
    connection.request("GET", "/readyz")
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.fixture
def service_urls(service_url: Callable[[Service], str]) -> dict[Service, str]:
    """The test's database as each service."""
    return {service: service_url(service) for service in SERVICES}


def test_four_services_are_ready_and_one_that_ends_is_named_with_its_last_words(
    owner_url: str, service_urls: dict[Service, str], tmp_path: Path
) -> None:
    with Suite(
        tmp_path, database_url=owner_url, service_urls=service_urls, free_ports=True
    ) as suite:
        each_is_ready_with_its_own_secrets_alone(suite)

        os.kill(suite.process_ids["publisher"], signal.SIGKILL)
        with pytest.raises(SuiteError) as ended:
            suite.wait()

    assert "publisher was killed by SIGKILL" in str(ended.value)
    assert str(suite.logs_folder / "publisher.log") in str(ended.value)
    assert "serving" in str(ended.value)


def each_is_ready_with_its_own_secrets_alone(suite: Suite) -> None:
    assert {readyz(address) for address in suite.addresses.admin.values()} == {200}
    assert set(suite.process_ids) == set(SERVICES)
    for service, process_id in suite.process_ids.items():
        seen = environment_of(process_id)
        assert seen[f"{service.upper()}_DATABASE_URL"] == suite.service_urls[service]
        secrets = {name for name in seen if "DATABASE_URL" in name or "API_KEY" in name}
        own = {f"{service.upper()}_DATABASE_URL", f"{service.upper()}_API_KEY"}
        assert secrets <= own
    assert (
        environment_of(suite.process_ids["ingress"])["INGRESS_API_KEY"]
        == (suite.credentials["INGRESS_API_KEY"])
    )
    assert set(suite.credentials) == KEYS
    assert stat.S_IMODE(suite.keys_file.stat().st_mode) == 0o600


def test_a_service_that_cannot_start_stops_the_others_and_says_why(
    owner_url: str, service_urls: dict[Service, str], tmp_path: Path
) -> None:
    suite = Suite(
        tmp_path / "data",
        environment={"DISPATCHER_LEASE_MS": "soon"},
        database_url=owner_url,
        service_urls=service_urls,
        free_ports=True,
    )
    with pytest.raises(SuiteError) as ended, suite:
        pass

    assert "dispatcher ended with code 2" in str(ended.value)
    assert "DISPATCHER_LEASE_MS is 'soon'" in str(ended.value)
    assert suite.process_ids
    assert not any(exists(process_id) for process_id in suite.process_ids.values())


def test_roles_that_others_use_are_not_given_new_passwords(owner_url: str, tmp_path: Path) -> None:
    suite = Suite(tmp_path / "data", database_url=owner_url, free_ports=True)
    with pytest.raises(PasswordDiffersError, match="set INGRESS_DATABASE_URL"), suite:
        pass


def refused(data_folder: str) -> str:
    """What the launcher says on stderr of a data folder that cannot be."""
    done = subprocess.run(
        [sys.executable, "-m", "services", "--data-folder", data_folder],
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_a_data_folder_that_cannot_be_made_is_told_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    for folder in (str(file), "/proc/fencepost"):
        said = refused(folder)
        assert said.startswith(f"{folder} ")
        assert said.endswith("choose another data folder.\n")
        assert said.count("\n") == 1


@pytest.fixture
def make_keys(
    owner_url: str, service_urls: dict[Service, str], tmp_path: Path
) -> Callable[[Mapping[str, str]], Suite]:
    """The start of a suite as far as its keys, in an environment."""

    def make(environment: Mapping[str, str]) -> Suite:
        suite = Suite(
            tmp_path,
            environment=environment,
            database_url=owner_url,
            service_urls=service_urls,
            free_ports=True,
        )
        suite._make_keys()
        return suite

    return make


def take_out(keys_file: Path, *variables: str) -> str:
    """Takes lines out of a keys file; returns what is left."""
    lines = keys_file.read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if line.partition("=")[0] not in variables)
    keys_file.write_text(kept)
    return kept


def test_keys_of_another_database_are_told_apart(
    owner_url: str, make_keys: Callable[[Mapping[str, str]], Suite], tmp_path: Path
) -> None:
    make_keys({})
    kept = (tmp_path / "keys.env").read_text()
    make_keys({})
    foreign = kept.replace("fp_", "fp_0")
    (tmp_path / "keys.env").write_text(foreign)
    with pytest.raises(SuiteError, match=r"Not all keys in .* are of this database"):
        make_keys({})
    assert (tmp_path / "keys.env").read_text() == foreign
    with psycopg.connect(owner_url) as connection:
        connection.execute("DELETE FROM fencepost.api_keys")
    (tmp_path / "keys.env").write_text(kept)
    with pytest.raises(SuiteError, match=r"Not all keys in .* are of this database"):
        make_keys({})
    assert (tmp_path / "keys.env").read_text() == kept


def test_a_keys_file_that_is_no_text_is_named(
    make_keys: Callable[[Mapping[str, str]], Suite], tmp_path: Path
) -> None:
    make_keys({})
    (tmp_path / "keys.env").write_bytes(b"\xff\xfe")

    with pytest.raises(SuiteError, match="is not UTF-8 text: put the file back from a backup"):
        make_keys({})


@pytest.mark.parametrize(
    ("lost", "given", "missing"),
    [
        (["INGRESS_API_KEY", "DISPATCHER_API_KEY"], {}, "INGRESS_API_KEY and DISPATCHER_API_KEY"),
        (["INGRESS_API_KEY"], {"INGRESS_API_KEY": ""}, "INGRESS_API_KEY"),
        (
            ["INGRESS_API_KEY", "DISPATCHER_API_KEY"],
            {"INGRESS_API_KEY_FILE": "/ingress.key"},
            "DISPATCHER_API_KEY",
        ),
    ],
)
def test_the_keys_that_services_lack_are_named_and_may_be_set(
    make_keys: Callable[[Mapping[str, str]], Suite],
    tmp_path: Path,
    lost: list[str],
    given: dict[str, str],
    missing: str,
) -> None:
    make_keys({})
    take_out(tmp_path / "keys.env", *lost)

    with pytest.raises(SuiteError, match=f"put the file back, or set {missing}, or the same with"):
        make_keys(given)

    assert make_keys(given | dict.fromkeys(lost, "fp_given")).credentials.keys() == KEYS - {*lost}


def test_without_the_keys_file_both_keys_may_be_set(
    make_keys: Callable[[Mapping[str, str]], Suite], tmp_path: Path
) -> None:
    make_keys({})
    (tmp_path / "keys.env").unlink()

    with pytest.raises(SuiteError, match="no INGRESS_API_KEY and no DISPATCHER_API_KEY in "):
        make_keys({})

    given = {"INGRESS_API_KEY": "fp_given", "DISPATCHER_API_KEY_FILE": "/dispatcher.key"}
    assert make_keys(given).credentials == {}


def test_an_installation_that_lacks_a_key_of_this_version_gets_it_and_starts(
    owner_url: str,
    service_urls: dict[Service, str],
    make_keys: Callable[[Mapping[str, str]], Suite],
    tmp_path: Path,
) -> None:
    before_it = make_keys({}).credentials
    kept = take_out(tmp_path / "keys.env", "DISPATCHER_API_KEY")
    with psycopg.connect(owner_url) as connection:
        connection.execute("DELETE FROM fencepost.api_keys WHERE label = 'dispatcher'")

    with Suite(
        tmp_path, database_url=owner_url, service_urls=service_urls, free_ports=True
    ) as suite:
        each_is_ready_with_its_own_secrets_alone(suite)
        made = suite.credentials["DISPATCHER_API_KEY"]
        assert environment_of(suite.process_ids["dispatcher"])["DISPATCHER_API_KEY"] == made

    assert suite.keys_file.read_text().startswith(kept)
    assert suite.credentials == {**before_it, "DISPATCHER_API_KEY": made}
    assert made != before_it["DISPATCHER_API_KEY"]


class Launcher:
    """`python -m services` with a database of its own."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        self.folder = folder
        addresses = choose_addresses({}, ports=ports)
        variables = {f"{s.upper()}_GRPC_ADDRESS": addresses.grpc[s] for s in SERVICES}
        variables |= {f"{s.upper()}_ADMIN_ADDRESS": addresses.admin[s] for s in SERVICES}
        variables["INGRESS_WEBHOOK_ADDRESS"] = addresses.webhooks
        self.process = subprocess.Popen(
            [sys.executable, "-m", "services", "--data-folder", str(folder)],
            env={**variables, "PATH": os.defpath},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = self._first_words()
        self.children = children_of(self.process.pid)

    def _first_words(self) -> str:
        assert self.process.stdout is not None
        lines: list[str] = []
        while not (lines and lines[-1].startswith("  keys")):
            line = self.process.stdout.readline()
            assert line, self.process.communicate()[1]
            lines.append(line)
        return "".join(lines)


def children_of(process_id: int) -> list[int]:
    """All descendants."""
    own = [
        int(child)
        for task in Path(f"/proc/{process_id}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return own + [each for child in own for each in children_of(child)]


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    """A running launcher."""
    with reserved_ports() as ports:
        launcher = Launcher(tmp_path / "data", ports)
        yield launcher
        launcher.process.kill()
        launcher.process.communicate()
        all_gone(launcher)


def all_gone(launcher: Launcher) -> None:
    """Waits until no process of it is left."""
    until_sync(
        lambda: not any(exists(child) for child in launcher.children),
        deadline_s=30,
        what="every process of the launcher to end",
    )


def test_the_launcher_runs_until_it_is_asked_to_stop(launcher: Launcher) -> None:
    assert len(launcher.children) > len(SERVICES)
    for words in ("/webhooks/github/", *SERVICES, "postgresql://fencepost_owner@127.0.0.1"):
        assert words in launcher.said
    assert "fp_" not in launcher.said
    assert set(read_text((launcher.folder / "keys.env").read_text())) == KEYS

    launcher.process.send_signal(signal.SIGINT)
    said, complained = launcher.process.communicate(timeout=45)

    assert (launcher.process.returncode, complained) == (0, "")
    assert said == "Stopped.\n"
    assert not any(exists(child) for child in launcher.children)
    assert not (launcher.folder / "postgres" / "cluster" / "postmaster.pid").exists()
    for service in SERVICES:
        log = (launcher.folder / "logs" / f"{service}.log").read_text()
        assert "stopped" in log.splitlines()[-1], service


def test_services_stop_in_order_and_a_second_signal_waits_for_nobody(launcher: Launcher) -> None:
    named = {service: child_of(launcher, service) for service in SERVICES}
    os.kill(named["publisher"], signal.SIGSTOP)

    launcher.process.send_signal(signal.SIGTERM)
    until_sync(
        lambda: not exists(named["ingress"]) and not exists(named["dispatcher"]),
        deadline_s=30,
        what="those before the publisher to stop",
    )
    assert exists(named["publisher"])
    assert exists(named["watchdog"])
    launcher.process.send_signal(signal.SIGINT)

    assert launcher.process.wait(timeout=30) == 0
    all_gone(launcher)


def child_of(launcher: Launcher, service: Service) -> int:
    """The process of a service."""
    (found,) = (
        child
        for child in launcher.children
        if Path(f"/proc/{child}/cmdline").read_bytes().endswith(f"services.{service}\0".encode())
    )
    return found


def test_children_die_with_a_launcher_that_is_killed(launcher: Launcher) -> None:
    launcher.process.kill()
    launcher.process.wait()

    all_gone(launcher)


def test_a_database_that_dies_ends_the_launcher_with_a_sentence(launcher: Launcher) -> None:
    pid_file = launcher.folder / "postgres" / "cluster" / "postmaster.pid"
    os.kill(int(pid_file.read_text().splitlines()[0]), signal.SIGKILL)

    _, complained = launcher.process.communicate(timeout=45)

    assert launcher.process.returncode == 1
    assert complained.startswith("The database has ended: see its log, ")
    all_gone(launcher)

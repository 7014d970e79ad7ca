"""A container engine: this machine's own, else one of Debian's on a private socket."""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tools.containers.debian import install_engine, run, unpack_plugins

ANSWERS_WITHIN_S = 60.0
STARTS_WITHIN_S = 60.0
STOPS_WITHIN_S = 60.0
LOOK_AGAIN_S = 0.1

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
NO_RULES = """\
*filter
:INPUT ACCEPT
:FORWARD ACCEPT
:OUTPUT ACCEPT
COMMIT
*nat
:PREROUTING ACCEPT
:INPUT ACCEPT
:OUTPUT ACCEPT
:POSTROUTING ACCEPT
COMMIT
"""

Environment = dict[str, str]


class EngineMissingError(Exception):
    """There is no engine and none can be brought; the text says what to do."""


@contextmanager
def engine(folder: Path) -> Iterator[Environment]:
    """The environment in which `docker` and `docker compose` work; raises EngineMissingError."""
    environment: Environment = dict(os.environ)  # noqa: TID251 - handed on to docker
    with ExitStack() as stack:
        if not works(environment, "version"):
            environment = stack.enter_context(brought(folder, environment))
        if not works(environment, "compose", "version"):
            environment = with_plugins(folder, environment)
        yield environment


def works(environment: Mapping[str, str], *words: str) -> bool:
    """Whether this command of docker succeeds."""
    if shutil.which("docker", path=environment.get("PATH")) is None:
        return False
    command = ["docker", *words]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, check=False, timeout=ANSWERS_WITHIN_S
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@contextmanager
def brought(folder: Path, environment: Environment) -> Iterator[Environment]:
    """An engine of our own while the block runs, with all that is its own in `folder`."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise EngineMissingError(
            "No container engine answers: start one (`docker version` must succeed), or run this "
            "as root on Debian, where it brings one."
        )
    install_engine(environment)
    private = environment | {"DOCKER_HOST": f"unix://{folder}/docker.sock"}
    print("starting dockerd", flush=True)
    with network_restored():
        daemon = start_daemon(folder, private)
        try:
            await_answer(daemon, private, folder / "dockerd.log")
            yield private
        finally:
            stop(daemon)
            # Left mounted by the daemon, it would keep the folder from being removed.
            left = folder / "exec/netns/default"
            subprocess.run(["umount", left], capture_output=True, check=False)


def start_daemon(folder: Path, environment: Environment) -> "subprocess.Popen[bytes]":
    """Starts dockerd with its socket, data and state in `folder`."""
    command = [
        "dockerd",
        f"--host={environment['DOCKER_HOST']}",
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--pidfile={folder}/dockerd.pid",
    ]
    with (folder / "dockerd.log").open("wb") as log:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # A Ctrl-C is for us, who take the containers down first.
            start_new_session=True,
        )


def await_answer(
    daemon: "subprocess.Popen[bytes]", environment: Mapping[str, str], log: Path
) -> None:
    """Returns when the daemon answers; raises EngineMissingError with its last words."""
    give_up_at = time.monotonic() + STARTS_WITHIN_S
    while daemon.poll() is None and time.monotonic() < give_up_at:
        if works(environment, "version"):
            return
        threading.Event().wait(LOOK_AGAIN_S)
    words = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
    raise EngineMissingError(f"dockerd does not serve here. The end of {log}:\n{words}")


def stop(daemon: "subprocess.Popen[bytes]") -> None:
    """Ends the daemon and whatever containers are left."""
    daemon.send_signal(signal.SIGTERM)
    try:
        daemon.wait(STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


@contextmanager
def network_restored() -> Iterator[None]:
    """Afterwards packet filter and forwarding are as they were before a daemon changed them."""
    rules = NO_RULES + run(["iptables-save"])
    forwarding = FORWARDING.read_text()
    try:
        yield
    finally:
        subprocess.run(["iptables-restore"], input=rules, text=True, check=True)
        subprocess.run(["ip", "link", "delete", "docker0"], capture_output=True, check=False)
        FORWARDING.write_text(forwarding)


def with_plugins(folder: Path, environment: Environment) -> Environment:
    """Docker's plugins out of Debian's packages, for this run alone; raises EngineMissingError."""
    if shutil.which("apt-get") is None:
        raise EngineMissingError(
            "`docker compose` does not work: install docker's compose plugin, version 2 or newer."
        )
    plugins = folder / "docker/cli-plugins"
    if not plugins.is_dir():
        unpack_plugins(folder / "packages", plugins)
    with_them = environment | {"DOCKER_CONFIG": str(folder / "docker")}
    if not works(with_them, "compose", "version"):
        raise EngineMissingError(f"The compose plugin in {plugins} does not run on this machine.")
    return with_them

"""What Debian's archive gives: the engine, docker's plugins, and the root of a base image."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ENGINE = ("docker.io", "mmdebstrap")
PLUGINS = ("docker-compose", "docker-buildx")
PLUGINS_RELEASE = "trixie"
"""The first release whose docker-compose is docker's plugin."""

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
BASE_PACKAGES = ("ca-certificates", "python3", "python3-venv")


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> str:
    """Runs a command to its end and returns what it said; raises CalledProcessError."""
    return subprocess.run(
        command,
        env=environment,
        check=True,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ).stdout


def install_engine(environment: Mapping[str, str]) -> None:
    """Installs what is missing of the engine and of the maker of base images."""
    if shutil.which("dockerd") and shutil.which("mmdebstrap"):
        return
    print(f"installing {' and '.join(ENGINE)}", flush=True)
    quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update"], quiet)
    wanted = list(ENGINE)
    if shutil.which("docker") is None and "docker-cli" in run(["apt-cache", "pkgnames", "docker"]):
        wanted.append("docker-cli")
    run(["apt-get", "install", "--yes", "--no-install-recommends", *wanted], quiet)


def unpack_plugins(scratch: Path, plugins: Path) -> None:
    """Puts docker's plugins into a folder, out of packages that are not installed."""
    print(f"unpacking {' and '.join(PLUGINS)}", flush=True)
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "lists/partial").mkdir(parents=True)
    source = scratch / "sources.list"
    source.write_text(f"deb [signed-by={KEYRING}] {mirror()} {PLUGINS_RELEASE} main\n")
    options = [
        *("-o", f"Dir::Etc::SourceList={source}", "-o", "Dir::Etc::SourceParts=/dev/null"),
        *("-o", f"Dir::State::Lists={scratch}/lists", "-o", f"Dir::Cache={scratch}/cache"),
        *("-o", "APT::Sandbox::User=root"),
    ]
    run(["apt-get", *options, "update"])
    run(["env", f"--chdir={scratch}", "apt-get", *options, "download", *PLUGINS])
    for archive in scratch.glob("*.deb"):
        run(["dpkg-deb", "--extract", archive, scratch / "unpacked"])
    plugins.parent.mkdir(parents=True, exist_ok=True)
    (scratch / "unpacked/usr/libexec/docker/cli-plugins").rename(plugins)
    shutil.rmtree(scratch)


def make_root(archive: Path) -> None:
    """Makes the archive of a minimal root with Python, of this machine's release."""
    print("making a base image", flush=True)
    draft = archive.with_name(f"draft-{archive.name}")
    packages = ",".join(BASE_PACKAGES)
    run(["mmdebstrap", "--variant=minbase", f"--include={packages}", release(), draft])
    draft.rename(archive)


def mirror() -> str:
    """Where this machine gets its packages from."""
    words = ["--format", "$(REPO_URI)", "Created-By: Packages", f"Release: {release()}"]
    return run(["apt-get", "indextargets", *words]).split()[0]


def release() -> str:
    """The code name of this machine's Debian."""
    lines = Path("/etc/os-release").read_text().splitlines()
    names = dict(line.split("=", 1) for line in lines if "=" in line)
    return names.get("VERSION_CODENAME", "stable").strip('"')

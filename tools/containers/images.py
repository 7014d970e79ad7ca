"""The image under test, and stand-ins for the public images around it."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.containers.debian import make_root, run
from tools.containers.engine import EngineMissingError, Environment

FENCEPOST = "fencepost-test:local"
PLAYERS = "fencepost-test-players:local"
POSTGRES = "fencepost-test-postgres:local"
BASE = "fencepost-test-base:local"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
BASE_RECIPE = f"""\
FROM {BASE}-bare
COPY authorities.crt {AUTHORITIES}
ENV SSL_CERT_FILE={AUTHORITIES} PIP_CERT={AUTHORITIES}
"""


def build_images(folder: Path, root: Path, environment: Environment) -> Environment:
    """Builds what is not given; returns the environment with the variables that name the images."""
    named = {**environment, "FENCEPOST_IMAGE": FENCEPOST, "PLAYERS_IMAGE": PLAYERS}
    if not named.get("BASE"):
        build_base(folder, environment)
        named["BASE"] = BASE
    print("building the image", flush=True)
    run(["docker", "compose", "--project-directory", root, "build", "secrets"], named)
    build(root, "players", PLAYERS, environment)
    if not named.get("COLLECTOR_IMAGE"):
        named["COLLECTOR_IMAGE"] = PLAYERS
    if not named.get("POSTGRES_IMAGE"):
        build(root, "postgres", POSTGRES, environment)
        named["POSTGRES_IMAGE"] = POSTGRES
    return named


def build(root: Path, name: str, tag: str, environment: Mapping[str, str]) -> None:
    """Builds one of the images beside the tests, on top of the image under test."""
    recipe = f"--file={root}/tests/containers/images/{name}.Dockerfile"
    base = f"--build-arg=FENCEPOST_IMAGE={FENCEPOST}"
    run(["docker", "build", recipe, base, f"--tag={tag}", root], environment)


def build_base(folder: Path, environment: Mapping[str, str]) -> None:
    """Makes a Debian with Python, which trusts the authorities that this machine trusts."""
    found = ["docker", "image", "inspect", BASE]
    if subprocess.run(found, env=environment, capture_output=True, check=False).returncode == 0:
        return
    archive = folder / "base.tar"
    if not archive.exists():
        if shutil.which("mmdebstrap") is None:
            raise EngineMissingError(
                "mmdebstrap, which makes a base image, is missing: install it, or name an image "
                "that has Python with BASE, such as BASE=python:3.11-slim."
            )
        make_root(archive)
    context = folder / "base"
    context.mkdir(exist_ok=True)
    shutil.copy(AUTHORITIES, context / "authorities.crt")
    (context / "Dockerfile").write_text(BASE_RECIPE)
    run(["docker", "import", archive, f"{BASE}-bare"], environment)
    run(["docker", "build", "--tag", BASE, context], environment)

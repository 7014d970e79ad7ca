"""Builds the image, brings compose.yaml up and tries it, and takes all of it down.

Without a container engine on this machine one is brought (Debian, as root) and stopped at the end.
Stand-ins take the place of the public images, as no registry need be reached; BASE, POSTGRES_IMAGE
and COLLECTOR_IMAGE name images to use instead. Arguments go to pytest.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.containers.engine import EngineMissingError, engine
from tools.containers.images import build_images

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(tempfile.gettempdir()) / "fencepost-containers"
EXIT_CANNOT = 2


def main() -> int:
    """Returns pytest's exit code, or 2 after a sentence."""
    began_s = time.monotonic()
    tests = [sys.executable, "-m", "pytest", "tests/containers", *sys.argv[1:]]
    try:
        with alone(FOLDER), engine(FOLDER) as environment:
            images = build_images(FOLDER, ROOT, environment) | {"TRY_CONTAINERS": "yes"}
            code = subprocess.run(tests, cwd=ROOT, env=images, check=False).returncode
    except EngineMissingError as missing:
        print(missing, file=sys.stderr)
        return EXIT_CANNOT
    except subprocess.CalledProcessError as failed:
        print(f"{' '.join(map(str, failed.cmd))} failed:\n{failed.stdout or ''}", file=sys.stderr)
        return EXIT_CANNOT
    print(f"{time.monotonic() - began_s:.0f} s; {FOLDER} makes a next run faster")
    return code


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Makes the folder, and waits until no other run uses it; raises EngineMissingError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise EngineMissingError(f"{folder} is somebody else's: have it removed.")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())

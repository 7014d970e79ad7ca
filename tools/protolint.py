"""Lints the contracts and compares them with those of the last release.

Both run on images made by protoc, so that nothing is fetched. `--release` takes the contracts as
they are for the released ones: a deliberate act, part of making a release.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.protoc import CompilerError, proto_files, run_protoc

REPOSITORY = Path(__file__).parent.parent
RELEASED_IMAGE = Path("protos/image.binpb")


def build_image(proto_root: Path, image: Path, *, with_source: bool) -> None:
    """Compiles all contracts and their imports into one image."""
    source_option = ["--include_source_info"] if with_source else []
    with tempfile.TemporaryDirectory() as name:
        run_protoc(
            proto_root,
            Path(name),
            ["--include_imports", *source_option, f"--descriptor_set_out={image}"],
            proto_files(proto_root),
        )


def findings(repository: Path) -> list[str]:
    """What buf says against the contracts of the repository, one line a finding."""
    with tempfile.TemporaryDirectory() as name:
        image = Path(name) / "image.binpb"
        build_image(repository / "protos", image, with_source=True)
        against = f"--against={repository / RELEASED_IMAGE}"
        return _buf(repository, "lint", image) + _buf(repository, "breaking", image, against)


def _buf(repository: Path, command: str, image: Path, *options: str) -> list[str]:
    buf = Path(sys.executable).parent / "buf"
    done = subprocess.run(
        [buf, command, image, f"--config={repository / 'buf.yaml'}", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    said = (done.stdout + done.stderr).splitlines()
    # A failure without a sentence must not pass for a clean run.
    return said if said or done.returncode == 0 else [f"buf {command} failed: {done.returncode}"]


def main() -> int:
    """Reports the findings, or with --release replaces the committed image."""
    parser = argparse.ArgumentParser(prog="python -m tools.protolint", description=__doc__)
    parser.add_argument("--release", action="store_true", help="replace the committed image")
    try:
        if parser.parse_args().release:
            build_image(REPOSITORY / "protos", REPOSITORY / RELEASED_IMAGE, with_source=False)
            print(f"{RELEASED_IMAGE} now holds the contracts as they are")
            return 0
        found = findings(REPOSITORY)
    except CompilerError as error:
        found = [str(error)]
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Generates the Python stubs of the contracts into the SDK, or tells whether they are fresh.

`python -m tools.stubs` writes them; with `--check` it changes nothing and fails when they differ
from what the contracts say now, in the working tree as it is.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tools.protoc import VALIDATE_PROTO, CompilerError, proto_files, run_protoc

REPOSITORY = Path(__file__).parent.parent
PROTO_ROOT = REPOSITORY / "protos"
STUB_ROOT = REPOSITORY / "sdk"
SERVICE_CONFIG = "service_config.json"
STUB_PATTERNS = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi", SERVICE_CONFIG)


def generate(proto_root: Path, target: Path) -> None:
    """Writes the stubs of all contracts, and how they are retried, into an empty folder."""
    files = proto_files(proto_root)
    with tempfile.TemporaryDirectory() as name:
        work_dir = Path(name)
        run_protoc(
            proto_root,
            work_dir,
            [f"--python_out={target}", f"--mypy_out={target}", *_plugins("mypy")],
            [*files, VALIDATE_PROTO],
        )
        run_protoc(
            proto_root,
            work_dir,
            [f"--grpc_python_out={target}", f"--mypy_grpc_out={target}", *_plugins("mypy_grpc")],
            [file for file in files if _declares_service(proto_root / file)],
        )
    for file in files:
        _mark_packages(target, Path(file).parent)
    for config in proto_root.rglob(SERVICE_CONFIG):
        shutil.copyfile(config, target / config.relative_to(proto_root))


def stale(fresh: Path, committed: Path) -> list[str]:
    """Names of stubs that are missing, different or left over in the committed tree, sorted."""
    expected = {path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file()}
    present = {path.relative_to(committed) for path in _stubs_in(committed)}
    differing = {
        path
        for path in expected
        if not (committed / path).is_file()
        or (committed / path).read_bytes() != (fresh / path).read_bytes()
    }
    return sorted(path.as_posix() for path in differing | (present - expected))


def write(fresh: Path, committed: Path) -> None:
    """Replaces the committed stubs by the fresh ones, leaving hand-written files alone."""
    for path in _stubs_in(committed):
        path.unlink()
    shutil.copytree(fresh, committed, dirs_exist_ok=True)


def _stubs_in(root: Path) -> list[Path]:
    return [path for pattern in STUB_PATTERNS for path in root.rglob(pattern)]


def _plugins(*names: str) -> list[str]:
    scripts = Path(sys.executable).parent
    return [f"--plugin=protoc-gen-{name}={scripts / f'protoc-gen-{name}'}" for name in names]


def _declares_service(proto: Path) -> bool:
    return any(line.startswith("service ") for line in proto.read_text().splitlines())


def _mark_packages(target: Path, package: Path) -> None:
    # The first level is the SDK's own package, written by hand.
    for depth in range(2, len(package.parts) + 1):
        target.joinpath(*package.parts[:depth], "__init__.py").touch()


def main(arguments: list[str] | None = None) -> int:
    """Generates the stubs, or with --check compares them."""
    parser = argparse.ArgumentParser(prog="python -m tools.stubs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail when stale")
    check = parser.parse_args(arguments).check
    with tempfile.TemporaryDirectory() as name:
        fresh = Path(name)
        try:
            generate(PROTO_ROOT, fresh)
        except CompilerError as error:
            print(error, file=sys.stderr)
            return 1
        differing = stale(fresh, STUB_ROOT)
        if not check:
            write(fresh, STUB_ROOT)
            print(f"{len(differing)} stub files changed")
            return 0
    for path in differing:
        print(f"stale stub: sdk/{path}", file=sys.stderr)
    if differing:
        print("the contracts changed: run `make stubs` and commit the result", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

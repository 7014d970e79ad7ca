"""The wheel holds the SDK alone, and works with nothing beside it but what it declares."""

import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.architecture.tree import REPOSITORY

EXTRA = "cli"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network."""
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (built,) = target.glob("*.whl")
    return built


def needed(root: Distribution, extra: str) -> set[str]:
    """Names of the distributions that one needs, through all that it needs."""
    waiting, seen = [(root, frozenset({extra}))], set()
    while waiting:
        one, extras = waiting.pop()
        for requirement in map(Requirement, one.requires or []):
            if _applies(requirement, extras) and str(requirement) not in seen:
                seen.add(str(requirement))
                waiting.append((distribution(requirement.name), frozenset(requirement.extras)))
    return {Requirement(text).name for text in seen}


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras))


def empty_environment(wheel: Path, target: Path) -> None:
    """Lays out the wheel and exactly the distributions that it declares."""
    zipfile.ZipFile(wheel).extractall(target)
    (metadata,) = target.glob("fencepost-*.dist-info")
    for name in needed(Distribution.at(metadata), EXTRA):
        for file in distribution(name).files or []:
            source = Path(str(file.locate()))
            if ".." not in file.parts and source.is_file():
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                (target / file).symlink_to(source)


def test_the_wheel_holds_the_sdk_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"fencepost", "buf"}
    assert {name for name in names if name.startswith("buf/")} == {
        "buf/validate/validate_pb2.py",
        "buf/validate/validate_pb2.pyi",
    }


def test_the_wheel_imports_with_only_what_it_declares(wheel: Path, tmp_path: Path) -> None:
    empty_environment(wheel, tmp_path)
    modules = [
        path.relative_to(tmp_path).with_suffix("").as_posix().replace("/", ".")
        for path in [*tmp_path.glob("fencepost/**/*.py"), *tmp_path.glob("buf/**/*.py")]
        if path.stem not in ("__init__", "__main__")
    ]
    program = "\n".join(
        [
            "import importlib, sys",
            f"sys.path.insert(0, {str(tmp_path)!r})",
            f"for name in {sorted(modules)!r}:",
            "    importlib.import_module(name)",
            "assert not {'services', 'shared', 'sqlalchemy', 'psycopg'} & set(sys.modules)",
        ]
    )
    # -S leaves out site-packages, -I the working folder and the environment.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "fencepost.dispatcher.v1.work_pb2_grpc" in modules

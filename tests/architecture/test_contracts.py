"""The stubs are those of the contracts, and the contracts break nothing that was released."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.architecture.tree import REPOSITORY
from tools import protolint, stubs

PROTO = "protos/fencepost/common/v1/key.proto"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stubs generated from the contracts as they are."""
    target = tmp_path_factory.mktemp("stubs")
    stubs.generate(REPOSITORY / "protos", target)
    return target


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the contracts with what buf needs."""
    shutil.copytree(REPOSITORY / "protos", tmp_path / "protos")
    shutil.copy(REPOSITORY / "buf.yaml", tmp_path)
    return tmp_path


def edit(tree: Path, pattern: str, replacement: str) -> None:
    """Changes the first place in a contract where the pattern stands."""
    proto = tree / PROTO
    text, changed = re.subn(pattern, replacement, proto.read_text(), count=1)
    assert changed
    proto.write_text(text)


def test_the_stubs_are_fresh(fresh: Path) -> None:
    assert stubs.stale(fresh, REPOSITORY / "sdk") == []


def test_a_changed_a_missing_and_a_left_over_stub_are_seen(fresh: Path, tmp_path: Path) -> None:
    committed = tmp_path / "sdk"
    shutil.copytree(fresh, committed)
    (committed / "fencepost/common/v1/key_pb2.py").write_text("changed\n")
    (committed / "fencepost/common/v1/access_pb2.pyi").unlink()
    (committed / "fencepost/common/v1/gone_pb2.py").touch()
    assert stubs.stale(fresh, committed) == [
        "fencepost/common/v1/access_pb2.pyi",
        "fencepost/common/v1/gone_pb2.py",
        "fencepost/common/v1/key_pb2.py",
    ]


def test_a_stale_stub_fails_the_command(
    fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    committed = tmp_path / "sdk"
    shutil.copytree(fresh, committed)
    monkeypatch.setattr(stubs, "STUB_ROOT", committed)
    assert stubs.main(["--check"]) == 0
    (committed / "fencepost/common/v1/key_pb2.py").write_text("changed\n")
    assert stubs.main(["--check"]) == 1
    assert "stale stub: sdk/fencepost/common/v1/key_pb2.py" in capsys.readouterr().err


def test_writing_stubs_leaves_code_by_hand_alone(fresh: Path, tmp_path: Path) -> None:
    by_hand = tmp_path / "fencepost" / "client.py"
    left_over = tmp_path / "fencepost" / "gone_pb2.py"
    by_hand.parent.mkdir()
    by_hand.touch()
    left_over.touch()
    stubs.write(fresh, tmp_path)
    assert by_hand.exists()
    assert stubs.stale(fresh, tmp_path) == []


def test_the_wheel_asks_for_what_the_stubs_need() -> None:
    """Generated code refuses older run times than its own generator's."""
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    floors = {r.name: r for r in map(Requirement, declared["dependencies"])}
    sdk = REPOSITORY / "sdk"
    grpc = (sdk / "fencepost/dispatcher/v1/work_pb2_grpc.py").read_text()
    protobuf = (sdk / "fencepost/dispatcher/v1/work_pb2.py").read_text()
    grpc_needed = re.search(r"GRPC_GENERATED_VERSION = '([\d.]+)'", grpc)
    protobuf_needed = re.search(r"# Protobuf Python Version: ([\d.]+)", protobuf)
    assert grpc_needed
    assert protobuf_needed
    assert f">={grpc_needed[1]}" == str(floors["grpcio"].specifier)
    assert f">={protobuf_needed[1]}" == str(floors["protobuf"].specifier)


def test_the_contracts_have_no_finding(tree: Path) -> None:
    assert protolint.findings(tree) == []


def test_a_contract_against_the_style_is_found(tree: Path) -> None:
    edit(tree, r"// .*\nmessage Fence \{", "message Fence {")
    assert any("Fence" in line and "comment" in line for line in protolint.findings(tree))


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"int64 epoch = 3 \[.*\];", "string epoch = 3;"),
        (r"int64 epoch = 3", "int64 epoch = 4711"),
        (r"int64 epoch = 3 .*\n", ""),
    ],
    ids=["type", "number", "gone"],
)
def test_a_broken_field_is_found(tree: Path, pattern: str, replacement: str) -> None:
    edit(tree, pattern, replacement)
    assert any("epoch" in line for line in protolint.findings(tree))


def test_a_finding_fails_the_command(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(protolint, "REPOSITORY", tree)
    monkeypatch.setattr("sys.argv", ["protolint"])
    edit(tree, r"int64 epoch = 3 .*\n", "")
    assert protolint.main() == 1
    assert '"epoch"' in capsys.readouterr().err


def test_a_renamed_message_is_found(tree: Path) -> None:
    for proto in (tree / "protos").rglob("*.proto"):
        proto.write_text(re.sub(r"\bFence\b", "Renamed", proto.read_text()))
    assert any('"Fence" was deleted' in line for line in protolint.findings(tree))


def test_a_method_that_is_gone_is_found(tree: Path) -> None:
    server_info = tree / "protos/fencepost/common/v1/server_info.proto"
    text, gone = re.subn(r"  //.*\n  rpc \w+(?:.*\n)*?  }\n", "", server_info.read_text(), count=1)
    assert gone
    server_info.write_text(text)
    assert any("RPC" in line and "deleted" in line for line in protolint.findings(tree))


def test_an_addition_breaks_nothing(tree: Path) -> None:
    edit(tree, r"message Fence \{", "message Fence {\n  // New.\n  string planted = 4711;")
    assert protolint.findings(tree) == []

"""Runs the protocol buffer compiler on this repository's contracts.

The imports of others (`buf/validate`, `google/rpc`, the well-known types) come from installed
packages as descriptors, so that nothing is fetched and nothing of theirs is copied into `protos/`.
"""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import FileDescriptor
from google.rpc import code_pb2, error_details_pb2, status_pb2
from protovalidate._gen.buf.validate import validate_pb

VALIDATE_PROTO = "buf/validate/validate.proto"
FOREIGN_MODULES = (
    any_pb2,
    code_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    error_details_pb2,
    field_mask_pb2,
    status_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)


class CompilerError(Exception):
    """The compiler refused the contracts; the message is what it said."""


def proto_files(proto_root: Path) -> list[str]:
    """Names of all contracts below the root, as they are imported, sorted."""
    return sorted(path.relative_to(proto_root).as_posix() for path in proto_root.rglob("*.proto"))


def run_protoc(
    proto_root: Path, work_dir: Path, options: Iterable[str], files: Sequence[str]
) -> None:
    """Compiles the files with the given output options; raises CompilerError when it cannot."""
    foreign = work_dir / "foreign.binpb"
    foreign.write_bytes(_foreign_descriptors().SerializeToString(deterministic=True))
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--proto_path={proto_root}",
        f"--descriptor_set_in={foreign}",
        *options,
        *files,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompilerError(done.stderr.strip())


def _foreign_descriptors() -> descriptor_pb2.FileDescriptorSet:
    gathered: dict[str, bytes] = {}
    for module in FOREIGN_MODULES:
        _gather(module.DESCRIPTOR, gathered)
    # protovalidate carries the rules' schema for its own runtime only: no module that protoc made.
    gathered[VALIDATE_PROTO] = validate_pb.desc().proto.to_binary()
    files = [descriptor_pb2.FileDescriptorProto.FromString(data) for data in gathered.values()]
    return descriptor_pb2.FileDescriptorSet(file=files)


def _gather(file: FileDescriptor, gathered: dict[str, bytes]) -> None:
    for dependency in file.dependencies:
        _gather(dependency, gathered)
    gathered.setdefault(file.name, file.serialized_pb)

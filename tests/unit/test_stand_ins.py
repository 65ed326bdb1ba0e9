"""The stand-ins of real data are what their script makes."""

from __future__ import annotations

import runpy
from pathlib import Path

import polars as pl
import zstandard


def test_the_script_makes_the_stand_ins_again(root: Path, tmp_path: Path) -> None:
    folder = root / "tests/data"
    runpy.run_path(str(folder / "make.py"))["make"](tmp_path)
    made = {file.relative_to(tmp_path): file for file in tmp_path.rglob("*.zst")}
    tables = [file.relative_to(tmp_path) for file in tmp_path.rglob("*.parquet")]
    kept = {file.relative_to(folder) for kind in ("zst", "parquet") for file in folder.rglob(f"*.{kind}")}
    assert {*made, *tables} == kept
    # Another version of Zstandard or of Polars may pack the same content otherwise.
    unpack = zstandard.ZstdDecompressor().decompress
    assert [
        name
        for name, file in made.items()
        if unpack(file.read_bytes()) != unpack((folder / name).read_bytes())
    ] == []
    assert all(pl.read_parquet(tmp_path / name).equals(pl.read_parquet(folder / name)) for name in tables)

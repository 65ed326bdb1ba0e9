"""Imports write inside their folder and nowhere else, take bounded memory, and refuse what is broken."""

from __future__ import annotations

import gzip
import io
import stat
import zipfile
from pathlib import Path

import polars as pl
import pytest

from paceline.errors import ConfigError
from paceline.kernels import Grid, read_profile
from paceline.kernels.aisimulate import Database
from paceline.kernels.importing import import_profiles
from paceline.kernels.operators import mixed_grid
from paceline.kernels.vidur import read_vidur
from unit.kernels.making import SYSTEM, make_database, make_folder

ROOT = "aisimulate_core/systems"
GEMM = f"{ROOT}/data/toy/gemm/vllm/0.24.0/gemm_perf.parquet"


def wheel(folder: Path, *, links: tuple[str, ...] = (), **files: bytes) -> Path:
    """Write a wheel of the toy database with further files, some of them marked as links."""
    made = make_database(folder / "made")
    path = folder / "source.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(made.rglob("*.parquet")):
            archive.write(file, f"{ROOT}/{file.relative_to(made / 'systems').as_posix()}")
        archive.writestr(f"{ROOT}/toy.yaml", SYSTEM)
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            if name in links:
                entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(entry, data)
    return path


def below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "name",
    [
        f"{ROOT}/data/../../../../gemm_perf.parquet",
        f"{ROOT}/data/toy/../../../gemm_perf.parquet",
        f"{ROOT}/data/../gemm/vllm/0.24.0/gemm_perf.parquet",
        f"{ROOT}/data/toy/gemm/vllm/../gemm_perf.parquet",
        f"{ROOT}//data/toy/gemm/vllm/gemm_perf.parquet",
        f"{ROOT}/data/toy/gemm/vllm/..\\..\\..\\x/gemm_perf.parquet",
        f"{ROOT}/data/.hidden/gemm/vllm/0.24.0/gemm_perf.parquet",
        f"{ROOT}/data/c:x/gemm/vllm/0.24.0/gemm_perf.parquet",
        f"{ROOT}/../../../evil.yaml",
    ],
)
def test_a_name_that_leads_out_of_the_folder_is_refused_and_nothing_is_written(
    tmp_path: Path, name: str
) -> None:
    source = wheel(tmp_path, **{name: b"PAR1"})
    before = below(tmp_path)
    with pytest.raises(ConfigError, match=r"must (have files inside its folder|name its folders)"):
        import_profiles(source, into=tmp_path / "a" / "b" / "into")
    assert below(tmp_path) == before


def test_a_link_in_a_wheel_is_refused(tmp_path: Path) -> None:
    name = f"{ROOT}/data/toy/gemm/vllm/0.25.0/gemm_perf.parquet"
    source = wheel(tmp_path, links=(name,), **{name: b"/etc/passwd"})
    with pytest.raises(ConfigError, match=r"must hold plain files, .* was a link"):
        import_profiles(source, into=tmp_path / "into")
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize("inner", ["aisimulate", "aisimulate/systems", "aisimulate/systems/toy.yaml"])
def test_an_import_does_not_write_through_a_link(tmp_path: Path, inner: str) -> None:
    source = wheel(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tmp_path / "into" / inner
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(ConfigError, match="must be a plain file or folder to import to, was a link"):
        import_profiles(source, into=tmp_path / "into")
    assert below(outside) == set()


def test_a_model_s_profile_does_not_replace_what_a_link_points_to(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "into").mkdir()
    (tmp_path / "into" / "p.parquet").symlink_to(tmp_path / "mine")
    with pytest.raises(ConfigError, match="was a link"):
        import_profiles(make_folder(tmp_path / "source"), into=tmp_path / "into", name="p")
    assert (tmp_path / "mine").read_text() == "mine"


def test_an_imported_table_carries_a_seal_so_that_it_is_checked_once(tmp_path: Path) -> None:
    import_profiles(wheel(tmp_path), into=tmp_path / "into")
    database = Database(tmp_path / "into" / "aisimulate")
    assert all(b"paceline seal 1:" in database.read(release.path) for release in database.releases)


def test_a_wheel_that_unfolds_beyond_the_limit_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_LIMITS", "file_bytes=100000")
    path = tmp_path / "source.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(GEMM, b"PAR1" + bytes(1_000_000) + b"PAR1")
        archive.writestr(f"{ROOT}/toy.yaml", SYSTEM)
    assert path.stat().st_size < 10_000
    with pytest.raises(ConfigError, match=r"at most 100,000 \(limit file_bytes\), was 1,000,008"):
        import_profiles(path, into=tmp_path / "into")


def test_tables_that_are_too_large_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = wheel(tmp_path)
    monkeypatch.setenv("PACELINE_LIMITS", "file_bytes=6000")
    with pytest.raises(ConfigError, match=r"bytes of all tables must be at most 6,000"):
        import_profiles(source, into=tmp_path / "into")
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize("data", [b"PAR1", b"PAR1" + bytes(20) + b"PAR1", b""])
def test_a_broken_table_is_refused_by_its_name_before_anything_is_written(
    tmp_path: Path, data: bytes
) -> None:
    name = f"{ROOT}/data/toy/gemm/vllm/0.25.0/gemm_perf.parquet"
    with pytest.raises(ConfigError, match=r"0\.25\.0/gemm_perf\.parquet of .*: is no readable Parquet file"):
        import_profiles(wheel(tmp_path, **{name: data}), into=tmp_path / "into")
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize("cut", [10, 1000, -30])
def test_a_wheel_that_is_cut_is_one_error(tmp_path: Path, cut: int) -> None:
    source = wheel(tmp_path)
    source.write_bytes(source.read_bytes()[:cut])
    with pytest.raises(ConfigError, match="was no readable wheel"):
        import_profiles(source, into=tmp_path / "into")


def test_a_table_without_a_column_or_of_another_type_is_refused(tmp_path: Path) -> None:
    folder = make_database(tmp_path / "made")
    path = folder / GEMM.removeprefix("aisimulate_core/")
    good = pl.read_parquet(path)
    for frame, message in (
        (good.drop("k"), "must have the columns gemm_dtype, m, n, k, latency, lacked k"),
        (good.with_columns(m=pl.lit("x")), "m must hold numbers, was String"),
        (good.with_columns(gemm_dtype=pl.lit(5)), "gemm_dtype must hold texts, was Int32"),
        (
            good.with_columns(latency=pl.lit(float("nan"))),
            r"row 0 \(counting from 0\): latency must not be nan",
        ),
    ):
        frame.write_parquet(path)
        database = Database(folder)
        with pytest.raises(ConfigError, match=message):
            database.table(database.find("toy", "gemm_perf", backend="vllm"))


def test_scattered_points_are_refused_with_the_sizes_of_the_axes() -> None:
    scattered = [(at, 3 * at, 5 * at, 7 * at, 1e-3) for at in range(1, 121)]
    with pytest.raises(
        ConfigError,
        match=r"\(limit grid_points\), was 207,360,000 \(120 x 120 x 120 x 120\).*share their coordinates",
    ):
        Grid.of(scattered)


def test_the_limit_of_points_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    scattered = [(at, 3 * at, 5 * at, 7 * at, 1e-3) for at in range(1, 4)]
    monkeypatch.setenv("PACELINE_LIMITS", "grid_points=80")
    with pytest.raises(ConfigError, match="limit grid_points"):
        Grid.of(scattered)
    monkeypatch.setenv("PACELINE_LIMITS", "grid_points=81")
    assert Grid.of(scattered).seconds.size == 81


def test_the_sum_of_two_grids_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    prefill = Grid.of([(at, 0, 0, 0, 1e-3) for at in range(1, 11)])
    decode = Grid.of([(0, 0, at, 16, 1e-3) for at in range(1, 11)])
    monkeypatch.setenv("PACELINE_LIMITS", "grid_points=99")
    with pytest.raises(ConfigError, match=r"was 100 \(10 x 1 x 10 x 1\)"):
        mixed_grid(prefill, decode)


def test_of_many_times_at_one_point_the_median_counts() -> None:
    rows = [(0, 0, n, 16, float(time)) for n in (2, 1) for time in (9, 1, n)]
    assert [float(value) for value in Grid.of(rows).seconds.reshape(-1)] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "dense.csv",
            "qkv_proj,1,2",
            "qkv_proj,x,2",
            r"dense\.csv, line 4: tokens must be a whole number .*was 'x'",
        ),
        ("dense.csv", "qkv_proj,1,2", "qkv_proj,-1,2", r"dense\.csv, line 4: tokens must be a whole number"),
        ("dense.csv", "qkv_proj,1,2", "qkv_proj,1,", r"dense\.csv, line 4: time_us is missing"),
        (
            "dense.csv",
            "qkv_proj,1,2",
            "qkv_proj,1,inf",
            r"line 4: time_us must be a finite number, was 'inf'",
        ),
        (
            "attention.csv",
            "0,0,1,16,16",
            "0,0,1,16,\xff",
            "must be CSV with a header|time_us must be a finite",
        ),
        ("meta.yaml", "a/b", "\xff", r"meta\.yaml must be UTF-8 text"),
    ],
)
def test_a_broken_profile_names_file_and_line(
    tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    folder = make_folder(tmp_path / "profile")
    path = folder / file
    path.write_bytes(path.read_text().replace(old, new, 1).encode("latin-1"))
    with pytest.raises(ConfigError, match=message):
        read_profile(folder)


def test_a_compressed_profile_is_read_up_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_LIMITS", "file_bytes=100000")
    (tmp_path / "mlp.csv.gz").write_bytes(gzip.compress(b"num_tokens\n" + b"\n" * 1_000_000))
    with pytest.raises(ConfigError, match="limit file_bytes"):
        read_vidur(tmp_path / "mlp.csv.gz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seconds": pl.lit("x")}, r"row .counting from 0. \d+: seconds must be a finite number, was 'x'"),
        ({"tokens": pl.lit(-5)}, r"tokens must be a whole number from 0"),
        ({"layer": pl.lit(None, dtype=pl.String)}, "layer of .* is missing"),
        ({"kernel": pl.lit(3)}, "kernel must be a text, was 3"),
        ({"text": pl.lit("many")}, "fact tensor_parallel of .* must be a whole number above 0, was 'many'"),
    ],
)
def test_a_broken_profile_in_our_format_names_row_and_column(
    tmp_path: Path, change: dict[str, pl.Expr], message: str
) -> None:
    import_profiles(make_folder(tmp_path / "source"), into=tmp_path, name="p")
    frame = pl.read_parquet(tmp_path / "p.parquet")
    fact = pl.DataFrame(
        {"kernel": ["fact"], "layer": ["tensor_parallel"], "text": ["1"]},
    )
    broken = pl.concat([frame, fact], how="diagonal").with_columns(**change)
    broken.write_parquet(tmp_path / "broken.parquet")
    with pytest.raises(ConfigError, match=message):
        read_profile(tmp_path / "broken.parquet")


def test_a_profile_of_our_own_carries_a_seal(tmp_path: Path) -> None:
    import_profiles(make_folder(tmp_path / "source"), into=tmp_path, name="p")
    data = (tmp_path / "p.parquet").read_bytes()
    at = len(data) // 3
    (tmp_path / "p.parquet").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(ConfigError, match="changed after it was written"):
        read_profile(tmp_path / "p.parquet")
    buffer = io.BytesIO(data)
    assert pl.read_parquet(buffer).height > 0

"""AISimulate's database: where tables are found, on one made by hand, and a model's profile of them."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from paceline.errors import ConfigError
from paceline.kernels import Table, write_parquet
from paceline.kernels.aisimulate import Database
from paceline.kernels.assembled import assemble
from paceline.model import Model

SYSTEM = "gpu:\n  mem_bw: 1000000000000 # bytes a second\n  mem_empirical_constant_latency: 0.000003\n"
MODEL = replace(Model.load("llama-3.1-8b"), vocab_size=4096)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A database of one GPU in which a product takes its weights in nanoseconds and a millisecond a row."""
    data = tmp_path / "systems" / "data" / "toy"
    data.parents[1].mkdir(parents=True)
    (data.parents[1] / "toy.yaml").write_text(SYSTEM)
    attention = {
        "num_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "window_size": 0,
        "kv_cache_dtype": "bfloat16", "attn_dtype": "bfloat16",
    }  # fmt: skip
    tables: dict[str, list[dict[str, object]]] = {
        "gemm/vllm/0.24.0/gemm_perf": [
            {"gemm_dtype": "bfloat16", "m": m, "n": n, "k": k, "latency": 1e-6 * n * k + m}
            for m in (1, 64) for n in (1024, 65536) for k in (1024, 16384)
        ],
        "attention/vllm/0.24.0/generation_attention_perf": [
            {**attention, "batch_size": b, "isl": 1, "step": s, "latency": float(b * (s + 1))}
            for b in (1, 8) for s in (15, 1023)
        ],
        "attention/vllm/0.24.0/context_attention_perf": [
            {**attention, "batch_size": 1, "isl": n, "step": 0, "latency": float(n * n)}
            for n in (1, 16, 512, 528, 1024)
        ],
    }  # fmt: skip
    for name, rows in tables.items():
        path = data / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows).write_parquet(path)
    return tmp_path


def test_a_model_is_made_up_of_operators(folder: Path) -> None:
    profile = assemble(Database(folder), MODEL, "toy")
    # Widths between measured ones: 6144 x 4096 weights, linear in both.
    assert profile.dense["qkv_proj"](1) == pytest.approx(1e-3 * (1e-6 * 6144 * 4096 + 1))
    assert profile.decode is not None
    assert profile.decode(0, 0, 8, 16) == pytest.approx(0.128)
    assert profile.prefill is not None
    # 16 tokens after 512: a prompt of 528 less one of 512.
    assert profile.prefill(16, 512, 0, 0) == pytest.approx(1e-3 * (528**2 - 512**2))
    # Activation: three widths of 14,336 numbers of two bytes at 1 TB/s, after 3 us.
    assert profile.dense["act_fn"](1) == pytest.approx(3e-6 + 3 * 14336 * 2 / 1e12)


def test_a_wheel_and_its_folder_hold_the_same(folder: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "aisimulate-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in (folder / "systems").rglob("*"):
            if file.is_file():
                archive.write(file, f"aisimulate_core/{file.relative_to(folder).as_posix()}")
    wires = []
    for number, where in enumerate((wheel, folder)):
        path = tmp_path / f"{number}.parquet"
        write_parquet(assemble(Database(where), MODEL, "toy"), path)
        wires.append(Table(profile=str(path)).to_wire(MODEL))
    assert wires[0] == wires[1]


def test_what_is_not_there_is_named_with_what_is(folder: Path) -> None:
    database = Database(folder)
    with pytest.raises(ConfigError, match=r"it has vllm 0\.24\.0"):
        assemble(database, MODEL, "toy", backend="sglang")
    with pytest.raises(ConfigError, match="tables of toy"):
        database.system("h100_sxm")
    with pytest.raises(ConfigError, match="must have 16 heads over 4"):
        assemble(database, MODEL, "toy", tensor_parallel=2)
    with pytest.raises(ConfigError, match="must have a folder data"):
        Database(folder / "systems" / "data" / "toy" / "gemm")

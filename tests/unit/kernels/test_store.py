"""Profiles by name: where they live, how they get there, and what their names find."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

from paceline import Instance
from paceline.cost import Affine
from paceline.errors import ConfigError
from paceline.kernels import Shape, Table, read_profile
from paceline.kernels.importing import import_profiles
from paceline.kernels.store import locate, shipped, stored, user_folder
from unit.kernels.making import make_database, make_folder

SHAPE = Shape(layers=10, hidden_size=100, vocab_size=50)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PACELINE_PROFILES", str(tmp_path / "home"))
    return tmp_path / "home"


def test_profiles_live_where_the_platform_keeps_a_users_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PACELINE_PROFILES", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    places = {
        "linux": Path("/data/paceline/profiles"),
        "darwin": Path.home() / "Library/Application Support/paceline/profiles",
        "win32": Path("/local/paceline/profiles"),
    }
    for platform, place in places.items():
        monkeypatch.setattr(sys, "platform", platform)
        assert user_folder() == place
    monkeypatch.setenv("PACELINE_PROFILES", "/mine")
    assert user_folder() == Path("/mine")


def test_a_folder_is_imported_under_a_name(tmp_path: Path, home: Path) -> None:
    source = make_folder(tmp_path / "my run" / "profile")
    assert import_profiles(source) == ("my-run",)
    assert [entry.name for entry in stored()] == ["my-run"]
    named, there = Table(profile="my-run", shape=SHAPE), Table(profile=str(source), shape=SHAPE)
    assert named.to_wire() == there.to_wire()
    assert home.is_dir()


def test_shipped_profiles_say_how_they_were_measured_and_give_way_to_imported_ones(
    tmp_path: Path, home: Path
) -> None:
    assert stored() == ()
    for entry in shipped():
        facts = read_profile(entry.path).facts
        assert {"date", "driver", "gpu", "spread", "attention", "torch_version"} <= facts.keys()
        assert locate(entry.name) == entry.path
        model = facts["model"]
        instance = Instance(model=model, max_model_len=1024, num_blocks=100, cost=Table(profile=entry.name))
        assert instance.to_wire()["cost"]["kind"] == "table"
    import_profiles(make_folder(tmp_path / "source"), name="h100-sxm-qwen3-14b")
    assert locate("h100-sxm-qwen3-14b") == home / "h100-sxm-qwen3-14b.parquet"
    with pytest.raises(ConfigError, match=r"close to it: .*h100-sxm-llama-3\.1-8b"):
        locate("h100-sxm-llama-3.1-80b")


def test_one_degree_of_parallelism_is_taken_of_several(tmp_path: Path, home: Path) -> None:
    make_folder(tmp_path / "bundle" / "tp2")
    assert import_profiles(tmp_path / "bundle", tensor_parallel=2) == ("bundle-tp2",)


def test_operators_make_up_the_model_of_the_instance(tmp_path: Path, home: Path) -> None:
    names = import_profiles(make_database(tmp_path / "source"))
    assert names == ("aisimulate/toy/vllm/0.24.0",)
    for name in ("aisimulate/toy/vllm/0.24.0", "aisimulate/toy/vllm"):
        instance = Instance(model="llama-3.1-8b", num_blocks=10_000, cost=Table(profile=name))
        assert instance.to_wire()["cost"]["kind"] == "table"
    with pytest.raises(ConfigError, match="model of an Instance must be given with the profile 'aisimulate/"):
        Instance(num_blocks=100, cost=Table(profile="aisimulate/toy/vllm", shape=SHAPE))


def test_steps_of_a_named_profile_move_what_the_model_moves(tmp_path: Path, home: Path) -> None:
    import_profiles(make_database(tmp_path / "source"))
    measured, line = (
        Instance(model="llama-3.1-8b", gpu="h100-sxm", num_blocks=10_000, cost=cost)
        for cost in (Table(profile="aisimulate/toy/vllm"), Affine(step_s=0.01))
    )
    assert measured.to_wire()["traffic"] == line.to_wire()["traffic"]
    assert measured.to_wire()["traffic"] is not None


def test_a_filter_must_be_of_what_there_is(tmp_path: Path, home: Path) -> None:
    source = make_database(tmp_path / "source")
    with pytest.raises(ConfigError, match="gpus must be among toy, was h100_sxm"):
        import_profiles(source, gpus=["h100_sxm"])
    assert import_profiles(source, gpus=["toy"], backends=["vllm"], into=tmp_path / "else") == (
        "aisimulate/toy/vllm/0.24.0",
    )
    assert not home.exists()


def test_names_that_find_nothing_say_what_is_close(tmp_path: Path, home: Path) -> None:
    with pytest.raises(ConfigError, match="0 have been imported"):
        locate("my-run")
    import_profiles(make_folder(tmp_path / "x"), name="my-run")
    with pytest.raises(ConfigError, match="close to it: my-run"):
        locate("my-rum")
    import_profiles(make_database(tmp_path / "source"))
    with pytest.raises(ConfigError, match=r"close to it: aisimulate/toy/vllm/0\.24\.0"):
        locate("aisimulate/toy/vllm/0.99.0")
    source = make_folder(tmp_path / "y")
    for name in ("../evil", "aisimulate", ".hidden"):
        with pytest.raises(ConfigError, match="name of a profile must be"):
            import_profiles(source, name=name)


def test_vidurs_profiles_are_imported_with_the_split_that_is_asked_for(tmp_path: Path, home: Path) -> None:
    (tmp_path / "vidur").mkdir()
    operators = ("emb", "input_layernorm", "post_attention_layernorm", "attn_pre_proj", "attn_rope",
                 "attn_post_proj", "mlp_up_proj", "mlp_act", "mlp_down_proj", "add")  # fmt: skip
    times = {f"time_stats.{name}.median": 1.0 for name in operators}
    rows = [{"num_tokens": n, "num_tensor_parallel_workers": 2, **times} for n in (1, 8)]
    pl.DataFrame(rows).write_csv(tmp_path / "vidur" / "mlp.csv")
    attention = [
        {"batch_size": b, "prefill_chunk_size": 16 if first else 0, "kv_cache_size": kv, "is_prefill": first,
         "num_tensor_parallel_workers": 2, "time_stats.attn_prefill.median": 2.0 if first else None,
         "time_stats.attn_decode.median": None if first else 3.0}
        for first in (True, False) for b in (1, 2) for kv in (16, 32)
    ]  # fmt: skip
    pl.DataFrame(attention).write_csv(tmp_path / "vidur" / "attention.csv")
    assert import_profiles(tmp_path / "vidur", tensor_parallel=2, name="v") == ("v",)
    profile = Table(profile="v").read()
    assert (profile.tensor_parallel, profile.dense["qkv_proj"](4)) == (2, 1e-3)
    assert profile.decode is not None
    assert profile.decode(0, 0, 2, 16) == 3e-3
    with pytest.raises(ConfigError, match=r"must have measured tensor_parallel 1, had \[2\]"):
        import_profiles(tmp_path / "vidur")

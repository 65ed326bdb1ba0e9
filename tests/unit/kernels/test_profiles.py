"""Formats of kernel profiles, on folders made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.errors import ConfigError
from paceline.kernels import Curve, Grid, Link, Shape, Skew, Table, read_profile, write_parquet
from paceline.kernels.metadata import flatten
from paceline.kernels.vidur import read_vidur
from unit.kernels.making import make_folder

SHAPE = Shape(layers=10, hidden_size=100, vocab_size=50)
MIXTURE = Shape(layers=10, hidden_size=100, vocab_size=50, experts=8, experts_per_token=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Each layer takes 1 us and 1 us a token; attention, decodes and their context in us."""
    return make_folder(tmp_path / "profile")


def test_a_block_is_its_layers_with_two_norms(folder: Path) -> None:
    wire = Table(profile=str(folder), shape=SHAPE).to_wire()
    # Eight kernels of a block at 2 us for one token, ten blocks.
    assert wire["tokens"] == {"at": [1, 3], "ticks": [10 * 8 * 2_000_000, 10 * 8 * 4_000_000]}
    assert wire["rows"] == {"at": [1], "ticks": [7_000_000]}
    assert wire["decode"]["ticks"] == [10 * n * kv * 1_000_000 for n in (1, 2) for kv in (16, 32)]
    assert wire["mixed"]["history"] == [0, 10]
    assert wire["skew"] is None


def test_reductions_of_a_split_model(folder: Path) -> None:
    link = Link(bytes_per_s=1e9, latency_s=1e-6)
    whole = Table(profile=str(folder), shape=SHAPE).to_wire()
    split = Table(profile=str(folder), shape=SHAPE, link=link).to_wire(tensor_parallel=2)
    # 21 all-reduces of 200 bytes a token: two ranks exchange them in one hop of 1 us, at 1 GB/s.
    per_token = 21 * (1_000_000 + 200_000)
    assert split["tokens"]["ticks"][0] - whole["tokens"]["ticks"][0] == per_token


def test_a_split_model_needs_a_link(folder: Path) -> None:
    with pytest.raises(ConfigError, match="link of a Table"):
        Table(profile=str(folder), shape=SHAPE).to_wire(tensor_parallel=2)


def test_experts_stand_in_for_the_mlp(folder: Path) -> None:
    rows = [(n, e, 10 * e) for n in (1, 64) for e in (1, 8)]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    (folder / "moe.csv").write_text("tokens,activated_experts,time_us\n" + text)
    wire = Table(profile=str(folder), shape=MIXTURE).to_wire()
    # Five kernels are left; one token activates two of eight experts, which take 10 us each.
    assert wire["tokens"]["ticks"][0] == 10 * (5 * 2_000_000 + 20_000_000)
    # Two tokens: 8 * (1 - (3/4)^2) = 3.5 experts, and two tokens lie on the grid of experts.
    at = wire["tokens"]["at"].index(2)
    assert wire["tokens"]["ticks"][at] == 10 * (5 * 3_000_000 + 35_000_000)


def test_experts_take_a_least_time_for_each_token(folder: Path) -> None:
    """Two experts of 10 us for one token, and 3.5 for two, but 30 us a token at least."""
    rows = [(n, e, 10 * e) for n in (1, 64) for e in (1, 8)]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    (folder / "moe.csv").write_text("tokens,activated_experts,time_us\n" + text)
    wire = Table(profile=str(folder), shape=MIXTURE, expert_token_s=30e-6).to_wire()
    # 30 us for a token instead of 20, and 60 us for two instead of 35.
    first, second = (wire["tokens"]["ticks"][wire["tokens"]["at"].index(n)] for n in (1, 2))
    assert first == 10 * (5 * 2_000_000 + 30_000_000)
    assert second == 10 * (5 * 3_000_000 + 60_000_000)
    faster = Table(profile=str(folder), shape=MIXTURE, expert_token_s=1e-6).to_wire()
    assert faster == Table(profile=str(folder), shape=MIXTURE).to_wire()
    with pytest.raises(ConfigError, match="expert_token_s of a Table"):
        Table(profile=str(folder), expert_token_s=-1.0)


def test_expert_parallel_ranks_share_tokens_and_experts(folder: Path) -> None:
    rows = [(n, e, n + 10 * e) for n in (1, 64) for e in (1, 8)]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    (folder / "moe.csv").write_text("tokens,activated_experts,time_us\n" + text)
    link = Link(bytes_per_s=1e9)
    table = Table(profile=str(folder), shape=MIXTURE, link=link, data_parallel=2, expert_parallel=True)
    # Of two ranks with one token each: two tokens activate 3.5 experts, half on each rank, which does half of
    # the work. Gathering 2 * (100 + 8) numbers takes half of their bytes, scattering 2 * 100 likewise.
    exchange = (108 + 100) * 2 * 1_000
    assert table.to_wire()["tokens"]["ticks"][0] == 10 * (5 * 2_000_000 + 18_500_000 + exchange)


def test_ranks_that_share_experts_still_send_from_stage_to_stage(folder: Path) -> None:
    rows = [(n, e, n + 10 * e) for n in (1, 64) for e in (1, 8)]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    (folder / "moe.csv").write_text("tokens,activated_experts,time_us\n" + text)
    table = Table(profile=str(folder), shape=MIXTURE, link=Link(bytes_per_s=1e9), data_parallel=2)
    for shared in (True, False):
        one, three = (
            table.to_wire(pipeline_parallel=stages, shared=shared)["tokens"]["ticks"][0] for stages in (1, 3)
        )
        # Twice, hidden state and residual of a token: 100 numbers of two bytes each.
        assert three - one == 2 * 2 * 100 * 2 * 1_000


def test_our_parquet_holds_all_of_a_profile(folder: Path, tmp_path: Path) -> None:
    skew = "regime,n,nb,ratio,skew,pc,kp,kvs,kv_big,kv_mean,t_mean_us,t_max_us,t_skew_us,alpha\n"
    (folder / "skew.csv").write_text(skew + "pure,2,1,0.5,4.0,0,0,128,512,320,10,20,15,0.5\n")
    write_parquet(read_profile(folder), tmp_path / "ours.parquet")
    ours = Table(profile=str(tmp_path / "ours.parquet"), shape=SHAPE)
    assert ours.to_wire() == Table(profile=str(folder), shape=SHAPE).to_wire()
    assert ours.read().facts["gpu"] == "X"
    assert ours.read().skew is not None


def test_a_profile_may_say_that_its_skew_is_not_to_be_used(folder: Path) -> None:
    skew = "n,nb,skew,pc,t_mean_us,t_max_us,t_skew_us\n2,1,4.0,0,10,20,15\n"
    (folder / "skew.csv").write_text(skew)
    assert read_profile(folder).skew is not None
    with (folder / "meta.yaml").open("a") as meta:
        meta.write("skew_fit:\n  enabled: false\n")
    assert read_profile(folder).skew is None


def test_missing_files_and_columns_are_named(folder: Path) -> None:
    (folder / "dense.csv").write_text("layer,time_us\n")
    with pytest.raises(ConfigError, match="lacked tokens"):
        read_profile(folder)
    (folder / "dense.csv").unlink()
    with pytest.raises(ConfigError, match=r"must have dense\.csv"):
        read_profile(folder)
    with pytest.raises(ConfigError, match=r"must be a folder with attention\.csv"):
        read_profile(folder / "nothing")


def test_a_ragged_grid_is_looked_up_axis_by_axis() -> None:
    grid = Grid.of([(0, 0, 1, 16, 1.0), (0, 0, 1, 32, 3.0), (0, 0, 2, 16, 5.0), (0, 0, 2, 24, 7.0)])
    assert grid(0, 0, 1, 24) == 2.0
    assert grid(0, 0, 1.5, 24) == 4.5


def test_curves_add_on_the_points_of_both() -> None:
    total = Curve((1, 4), (1.0, 4.0)) + Curve((2, 4), (10.0, 30.0))
    assert total == Curve((1, 2, 4), (11.0, 12.0, 34.0))


def test_alpha_weighs_batches_by_what_they_can_say() -> None:
    skew = Skew.of([(0, 4, 0.5, 1.0, 2.0, 1.0), (0, 4, 0.5, 10.0, 40.0, 25.0)])
    assert skew(0, 4, 0.5) == pytest.approx((0.0 * 1 + 15 * 30) / (1 + 900))


def test_metadata_with_lists_and_what_is_no_yaml() -> None:
    assert flatten("a:\n- 1\n- x\nb:\n  - 2\n", "m") == {"a": "[1, x]", "b": "[2]"}
    with pytest.raises(ConfigError, match="m, line 1: must be `name: value`"):
        flatten("no mapping", "m")


def test_vidur_medians_become_layers(data: Path) -> None:
    path = data / "measured" / "vidur" / "h100_llama-2-70b_mlp.csv.zst"
    profile = read_vidur(path, tensor_parallel=1)
    # The median of the real file's rows of 4,096 tokens on one rank lies among them, and the stand-in's too.
    assert 5.3e-3 < profile.dense["gate_up_proj"](4096) < 6.0e-3
    half = read_vidur(path, tensor_parallel=2)
    assert half.dense["gate_up_proj"](4096) < 0.6 * profile.dense["gate_up_proj"](4096)

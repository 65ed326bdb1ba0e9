"""AISimulate's database: where tables are found, on one made by hand, and a model's profile of them."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from paceline.errors import ConfigError
from paceline.kernels import Curve, KernelProfile, Table, read_parquet, write_parquet
from paceline.kernels.aisimulate import Database
from paceline.kernels.assembled import assemble
from paceline.model import Model

SYSTEM = """gpu:
  mem_bw: 1000000000000 # bytes a second
  mem_empirical_constant_latency: 0.000003
misc:
  nccl_version: '2.27.3'
"""
MODEL = replace(Model.load("llama-3.1-8b"), vocab_size=4096)


MIXTURE = replace(Model.load("qwen3-30b-a3b"), vocab_size=4096, layers=10)


def _mixture() -> dict[str, list[dict[str, object]]]:
    """Experts that take a millisecond a token of all ranks, shared evenly, and exchanges by the number."""
    shape = {"hidden_size": 2048, "inter_size": 768, "topk": 8, "num_experts": 128, "moe_dtype": "bfloat16"}
    return {
        "moe/vllm/0.24.0/moe_perf": [
            {**shape, "moe_tp_size": tp, "moe_ep_size": ep, "distribution": "power_law_1.01", "num_tokens": n,
             "kernel_source": "one", "latency": n / (tp * ep)}
            for tp, ep in ((1, 1), (2, 1), (1, 2)) for n in (1, 1024)
        ],
        "comm/vllm/0.19.0/custom_allreduce_perf": [
            {"num_gpus": 2, "kernel_source": f"x_{kind}", "message_size": n, "latency": slow * n}
            for kind, slow in (("eager", 7e-6), ("graph", 1e-6)) for n in (1024, 2**26)
        ],
        "comm/nccl/2.27.3/nccl_perf": [
            {"op_name": op, "nccl_dtype": kind, "num_gpus": 2, "message_size": n, "latency": time * n}
            for op, time in (("all_gather", 2e-6), ("reduce_scatter", 3e-6)) for kind in ("half", "int8")
            for n in (1024, 2**26)
        ],
    }  # fmt: skip


def _latent() -> dict[str, list[dict[str, object]]]:
    """Blocks of latent attention: two kernels that each have sizes of their own."""
    shape = {"num_heads": 16, "gemm_type": "bfloat16", "kv_cache_dtype": "bfloat16"}
    return {
        "mla/vllm/0.24.0/mla_context_module_perf": [
            {**shape, "batch_size": 1, "isl": n, "step": 0, "kernel_source": kernel, "latency": time * n}
            for kernel, sizes, time in (("a", (1, 16, 512), 1.0), ("b", (512, 1024), 2.0)) for n in sizes
        ],
        "mla/vllm/0.24.0/mla_generation_module_perf": [
            {**shape, "batch_size": b, "isl": 1, "step": s, "kernel_source": "a", "latency": float(b + s)}
            for b in (1, 8) for s in (15, 1023)
        ],
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A database of one GPU in which a product takes its weights in nanoseconds and a millisecond a row."""
    data = tmp_path / "systems" / "data" / "toy"
    data.parents[1].mkdir(parents=True)
    (data.parents[1] / "toy.yaml").write_text(SYSTEM)
    attention = {"head_dim": 128, "window_size": 0, "kv_cache_dtype": "bfloat16", "attn_dtype": "bfloat16"}
    shapes = [
        ({**attention, "num_heads": heads, "num_key_value_heads": kv}, 1.0 if heads == 32 else 8.0)
        for heads, kv in ((32, 8), (16, 8), (32, 4), (16, 4), (16, 2))
    ]
    tables: dict[str, list[dict[str, object]]] = {
        "gemm/vllm/0.24.0/gemm_perf": [
            {"gemm_dtype": "bfloat16", "m": m, "n": n, "k": k, "latency": 1e-6 * n * k + m}
            for m in (1, 64) for n in (1024, 65536) for k in (1024, 16384)
        ],
        "attention/vllm/0.24.0/generation_attention_perf": [
            {**shape, "batch_size": b, "isl": 1, "step": s, "latency": slow * b * (s + 1)}
            for shape, slow in shapes for b in (1, 8) for s in (15, 1023)
        ],
        "attention/vllm/0.24.0/context_attention_perf": [
            {**shape, "batch_size": 1, "isl": n, "step": 0, "latency": slow * n * n}
            for shape, slow in shapes for n in (1, 16, 512, 528, 1024)
        ],
    }  # fmt: skip
    tables |= _mixture() | _latent()
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


def test_a_product_is_in_the_type_of_its_weights(folder: Path) -> None:
    path = folder / "systems/data/toy/gemm/vllm/0.24.0/gemm_perf.parquet"
    rows = pl.read_parquet(path)
    fourth = rows.with_columns(pl.lit("nvfp4").alias("gemm_dtype"), pl.col("latency") / 4)
    pl.concat([rows, fourth]).write_parquet(path)
    four_bits = replace(MODEL, weight_dtype="nvfp4", attention_dtype="bfloat16", output_dtype="nvfp4")
    profile, plain = (assemble(Database(folder), of, "toy").dense for of in (four_bits, MODEL))
    for name, share in (("qkv_proj", 1), ("o_proj", 4), ("gate_up_proj", 4), ("down_proj", 4)):
        assert profile[name](1) == pytest.approx(plain[name](1) / share)


def test_attention_is_that_of_the_caches_type(folder: Path) -> None:
    """A cache of 8 bits halves what a decode reads: as measured here, half the time of 16 bits."""
    for name in ("generation_attention_perf", "context_attention_perf"):
        path = folder / f"systems/data/toy/attention/vllm/0.24.0/{name}.parquet"
        rows = pl.read_parquet(path)
        eight = rows.with_columns(pl.lit("fp8").alias("kv_cache_dtype"), pl.col("latency") / 2)
        pl.concat([rows, eight]).write_parquet(path)
    database = Database(folder)
    sixteen, eight_bits = (assemble(database, MODEL, "toy", kv_dtype=dtype) for dtype in ("auto", "fp8"))
    assert sixteen.decode is not None
    assert eight_bits.decode is not None
    assert eight_bits.decode(0, 0, 8, 16) == sixteen.decode(0, 0, 8, 16) / 2 == pytest.approx(0.064)
    assert eight_bits.facts["kv_dtype"] == "fp8"
    with pytest.raises(ConfigError, match="must have 32 heads over 8 key and value heads of 128 in float16"):
        assemble(database, MODEL, "toy", kv_dtype="float16")


def test_heads_that_were_not_measured_lie_between_those_that_were(folder: Path) -> None:
    profile = assemble(Database(folder), replace(MODEL, heads=24, kv_heads=8), "toy")
    assert profile.decode is not None
    # Of 16 heads 8 * b * c ms, of 32 heads b * c ms: 24 lie in the middle.
    assert profile.decode(0, 0, 8, 16) == pytest.approx(1e-3 * (8 * 8 * 16 + 8 * 16) / 2)
    assert profile.facts["heads"] == "24, between 16 and 32 measured"


def test_ranks_reduce_as_measured_in_a_graph(folder: Path) -> None:
    database = Database(folder)
    profile = assemble(database, MODEL, "toy", tensor_parallel=2)
    # A nanosecond a number of two bytes.
    assert profile.collectives["all_reduce"](4096 * 2) == pytest.approx(1e-9 * 4096)
    assert profile.facts["custom_allreduce_perf_version"] == "0.19.0"
    path = folder / "split.parquet"
    write_parquet(profile, path)
    split = Table(profile=str(path)).to_wire(MODEL, tensor_parallel=2)
    alone = replace_collectives(profile, path).to_wire(MODEL, tensor_parallel=2)
    # 65 all-reduces of 4,096 numbers for each token.
    extra = split["tokens"]["ticks"][0] - alone["tokens"]["ticks"][0]
    assert extra == pytest.approx(65 * 4096 * 1e3, rel=1e-6)
    # Norms over all heads: 32 more, of 8 bytes; the smallest that was measured has 1,024 numbers.
    whole = replace(MODEL, qk_norm=True, qk_norm_whole=True)
    normed = Table(profile=str(path)).to_wire(whole, tensor_parallel=2)
    more = normed["tokens"]["ticks"][0] - split["tokens"]["ticks"][0]
    assert more == pytest.approx(32 * 1024 * 1e3, rel=1e-6)


def replace_collectives(profile: KernelProfile, path: Path) -> Table:
    """Return a table of the same kernels whose ranks take no time to reduce."""
    free = path.with_name("free.parquet")
    nothing = {name: Curve((1,), (0.0,)) for name in profile.collectives}
    write_parquet(replace(profile, collectives=nothing), free)
    return Table(profile=str(free))


@pytest.mark.parametrize(
    ("ranks", "dealt", "share"), [((1, 1), False, 1), ((2, 1), False, 2), ((1, 2), True, 2)]
)
def test_experts_are_shared_by_all_ranks(
    folder: Path, ranks: tuple[int, int], dealt: bool, share: int
) -> None:
    tensor, data = ranks
    database = Database(folder)
    options = {"tensor_parallel": tensor, "data_parallel": data, "expert_parallel": dealt}
    profile = assemble(database, MIXTURE, "toy", **options)
    assert profile.dense["experts"](64) == pytest.approx(1e-3 * 64 / share)
    # The router is a product of 2,048 by 128 numbers; the smallest measured width is 1,024.
    assert profile.dense["router"](1) == pytest.approx(1e-3 * (1e-6 * 1024 * 2048 + 1))


def test_a_router_in_32_bits_runs_outside_tensor_cores(folder: Path) -> None:
    assert MIXTURE.experts is not None
    wide = replace(MIXTURE, experts=replace(MIXTURE.experts, router_dtype="float32"))
    narrow, unknown = (assemble(Database(folder), model, "toy").dense["router"] for model in (MIXTURE, wide))
    assert unknown == narrow
    peaks = "  fp32_flops: 1000000000000\n  bfloat16_tc_flops: 1000000000000000\nmisc:"
    (folder / "systems/toy.yaml").write_text(SYSTEM.replace("misc:", peaks))
    router = assemble(Database(folder), wide, "toy").dense["router"]
    # Multiplications of 64 rows take 64 ms and a nanosecond a weight: the median of four is between those of
    # 1,024 x 16,384 and of 65,536 x 1,024 weights. A thousandth of that rate is left.
    small, large = (2 * 64 * w / (64e-3 + 1e-9 * w) for w in (1024 * 16384, 65536 * 1024))
    assert router(64) == pytest.approx(2 * 64 * 2048 * 128 / ((small + large) / 2 / 1000), rel=1e-6)
    assert router(1) == pytest.approx(router(64) / 64)


def test_mxfp4_experts_run_on_8_bit_activations_where_there_are_such_kernels(folder: Path) -> None:
    # TensorRT-LLM and SGLang do on Blackwell; Hopper has kernels with 16-bit activations alone.
    path = folder / "systems/data/toy/moe/vllm/0.24.0/moe_perf.parquet"
    plain = pl.read_parquet(path)
    assert MIXTURE.experts is not None
    four_bits = replace(MIXTURE, experts=replace(MIXTURE.experts, dtype="mxfp4"))
    times = {"w4a16_mxfp4": 5.0, "w4a8_mxfp4_mxfp8": 3.0}
    for names in (["w4a16_mxfp4"], ["w4a16_mxfp4", "w4a8_mxfp4_mxfp8"]):
        rows = [
            plain.with_columns(moe_dtype=pl.lit(name), latency=pl.col("num_tokens") * times[name])
            for name in names
        ]
        pl.concat(rows).write_parquet(path)
        profile = assemble(Database(folder), four_bits, "toy")
        assert profile.facts["moe_dtype"] == names[-1]
        assert profile.dense["experts"](64) == pytest.approx(1e-3 * 64 * times[names[-1]])


def test_experts_may_be_those_of_another_engine(folder: Path) -> None:
    moe = folder / "systems/data/toy/moe"
    other = moe / "sglang/0.5.14/moe_perf.parquet"
    other.parent.mkdir(parents=True)
    thrice = pl.read_parquet(moe / "vllm/0.24.0/moe_perf.parquet").with_columns(pl.col("latency") / 3)
    thrice.write_parquet(other)
    profile = assemble(Database(folder), MIXTURE, "toy", experts_of="sglang/0.5.14")
    assert profile.dense["experts"](64) == pytest.approx(1e-3 * 64 / 3)
    assert profile.dense["router"](1) == pytest.approx(1e-3 * (1e-6 * 1024 * 2048 + 1))
    assert (profile.facts["moe_perf_backend"], profile.facts["backend"]) == ("sglang", "vllm")
    with pytest.raises(ConfigError, match=r"must have moe_perf of sglang 0\.5\.13 on toy"):
        assemble(Database(folder), MIXTURE, "toy", experts_of="sglang/0.5.13")


def test_8_bit_matrices_reach_so_many_flops_at_most(folder: Path) -> None:
    gemm = folder / "systems/data/toy/gemm/vllm/0.24.0/gemm_perf.parquet"
    plain = pl.read_parquet(gemm)
    pl.concat([plain, plain.with_columns(gemm_dtype=pl.lit("fp8"))]).write_parquet(gemm)
    assert MIXTURE.experts is not None
    experts = replace(MIXTURE.experts, dtype="bfloat16")
    model = replace(MIXTURE, weight_dtype="fp8", experts=experts)
    fast, slow = (assemble(Database(folder), model, "toy", matrix_flops=flops) for flops in (0.0, 1e6))
    # 2 FLOP for each weight of a token, at a million a second; what is not in 8 bits is as it was.
    widths = 2 * model.heads * model.head_dim * model.hidden_size
    assert slow.dense["o_proj"](8) == pytest.approx(8 * widths / 1e6)
    assert slow.dense["o_proj"](8) > fast.dense["o_proj"](8)
    assert slow.dense["router"](8) == fast.dense["router"](8)
    generous = assemble(Database(folder), model, "toy", matrix_flops=1e18)
    assert generous.dense["o_proj"](8) == fast.dense["o_proj"](8)
    with pytest.raises(ConfigError, match="matrix_flops of a Table"):
        Table(profile=str(folder), matrix_flops=-1.0)


def test_data_parallel_ranks_gather_and_scatter_what_the_experts_need(folder: Path) -> None:
    path = folder / "shared.parquet"
    profile = assemble(Database(folder), MIXTURE, "toy", data_parallel=2, expert_parallel=True)
    write_parquet(profile, path)
    table = Table(profile=str(path), data_parallel=2, expert_parallel=True)
    lonely = {name: Curve((1,), (0.0,)) for name in profile.collectives}
    write_parquet(replace(profile, collectives=lonely), path.with_name("free.parquet"))
    free = replace(table, profile=str(path.with_name("free.parquet")))
    extra = table.to_wire(MIXTURE)["tokens"]["ticks"][0] - free.to_wire(MIXTURE)["tokens"]["ticks"][0]
    # In ten layers two tokens' hidden states and router logits at 2 ns a number, hidden states back at 3.
    assert extra == pytest.approx(10 * 1e3 * (2 * 2 * (2048 + 128) + 3 * 2 * 2048), rel=1e-6)


def test_latent_attention_is_a_block_with_its_projections(folder: Path) -> None:
    deepseek = Model.load("deepseek-v3")
    assert deepseek.experts is not None
    dense = replace(
        deepseek, experts=None, weight_dtype="auto", heads=16, kv_heads=16, vocab_size=4096, layers=2
    )
    profile = assemble(Database(folder), dense, "toy")
    assert profile.whole_attention
    assert "qkv_proj" not in profile.dense
    assert profile.prefill is not None
    # Both kernels have 512 tokens; the one with more places counts, and 1,024 are the other's alone.
    assert profile.prefill(512, 0, 0, 0) == pytest.approx(0.512)
    assert profile.prefill(512, 512, 0, 0) == pytest.approx(2.048 - 0.512)
    path = folder / "latent.parquet"
    write_parquet(profile, path)
    again = read_parquet(path)
    assert again.whole_attention
    assert again.tensor_parallel == 1
    assert Table(profile=str(path)).to_wire(dense)["tokens"]["ticks"][0] > 0


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
    with pytest.raises(ConfigError, match="must have sglang on toy, has toy/vllm"):
        assemble(database, MODEL, "toy", backend="sglang")
    with pytest.raises(ConfigError, match="tables of toy"):
        database.system("h100_sxm")
    with pytest.raises(ConfigError, match="must have 64 heads over 8"):
        assemble(database, replace(MODEL, heads=64), "toy")
    with pytest.raises(ConfigError, match="must have a folder data"):
        Database(folder / "systems" / "data" / "toy" / "gemm")

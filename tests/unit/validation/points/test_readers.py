"""Readers of measured points: kinds are known by their columns, and what is not modelled is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paceline import ConfigError
from paceline.concurrency import Concurrency
from paceline.validation.points.point import Point, Refused
from paceline.validation.points.readers import Unread, read_points
from paceline.validation.points.workloads import Closed
from unit.validation.points import samples
from unit.validation.points.samples import write


def only_point(folder: Path) -> Point:
    """Return the one point of a folder, after a look that all was read."""
    found = list(read_points(folder))
    assert [type(one) for one in found] == [Point], found
    point = found[0]
    assert isinstance(point, Point)
    return point


def refusals(folder: Path) -> list[str]:
    return [one.reason for one in read_points(folder) if isinstance(one, Refused)]


def test_a_closed_loop_has_its_lengths_and_ten_requests_for_each_in_flight(tmp_path: Path) -> None:
    write(tmp_path / "any/name.csv", [samples.AICONFIGURATOR])
    point = only_point(tmp_path)
    assert point.id == "any/name.csv#1"
    assert point.workload == Closed(prompt_tokens=256, output_tokens=32, concurrency=4, requests=40)
    assert point.measured == {"ttft": pytest.approx(0.030), "tpot": pytest.approx(0.008)}
    assert point.groups() == {
        "gpu": "h100-sxm",
        "engine": "vllm 0.19.0",
        "model": "llama-3.1-8b",
        "precision": "bf16",
        "parallel": "TP 1",
        "regime": "light",
        "load": "closed loop",
        "layers": "dense",
        "data": "any/name.csv",
    }


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"mode": "disagg"}, "prefill and decode apart"),
        ({"spec_method": "unknown", "silicon_ttft_ms": 31.0}, "may draft tokens"),
        ({"spec_method": "mtp"}, "drafts tokens"),
        ({"concurrency": ""}, "requests in flight are not in the data"),
        ({"backend_version": "0.12.0"}, "doubtful"),
        ({"attention_dp_size": 4, "batch_size": 1}, "attention data parallelism"),
        ({"pp_size": 2}, "pipeline parallelism"),
        ({"batch_size": 2}, "a batch that is not the concurrency"),
        ({"model_path": "moonshotai/Kimi-K2-Instruct"}, "the model kimi-k2 is not in the catalog"),
        ({"system": "b60"}, "the GPU b60 is not in the catalog"),
        ({"precision": "fp4"}, "NVFP4 weights, of which llama-3.1-8b's checkpoint is not known"),
        ({"precision": "int3"}, "weights in int3"),
        ({"isl": ""}, "a value is missing"),
    ],
)
def test_a_row_that_is_not_modelled_is_refused_by_name(
    changed: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    # Beside a whole row, so that a column that is empty in one row keeps its type.
    write(tmp_path / "points.csv", [samples.AICONFIGURATOR, {**samples.AICONFIGURATOR, **changed}])
    (found,) = refusals(tmp_path)
    assert reason in found


def test_lengths_are_drawn_but_in_the_sweep_that_shows_equal_ones(tmp_path: Path) -> None:
    other = {"backend": "sglang", "backend_version": "0.5.1.post1", "model_path": "Qwen/Qwen3-32B"}
    sweep = {**other, "source": "nvidia-sweep/h100_sxm/sglang"}
    write(tmp_path / "points.csv", [{**samples.AICONFIGURATOR, **changed} for changed in (other, sweep)])
    drawn, alike = (one for one in read_points(tmp_path) if isinstance(one, Point))
    assert drawn.workload.load(0).trace.frame["prompt_tokens"].n_unique() > 5
    assert alike.workload.load(0).trace.frame["prompt_tokens"].to_list() == [256] * 40
    assert (drawn.fitted, alike.fitted) == ("", "decodes beside prompts")


@pytest.mark.parametrize(
    ("engine", "version", "expected"),
    [
        # max_batch_size + isl + 1500, by the generator's rules; TensorRT-LLM's to whole blocks of 32 tokens.
        ("vllm", "0.12.0", (8 + 1024 + 1500, None, False)),
        ("trtllm", "1.0.0rc3", (2560, 0.8, False)),
        ("sglang", "0.5.6.post2", (None, None, True)),
        ("sglang", "0.5.1.post1", (None, None, False)),
    ],
)
def test_sweeps_have_the_limits_of_the_generator_that_set_them_up(
    engine: str, version: str, expected: tuple[int | None, float | None, bool], tmp_path: Path
) -> None:
    load = {"isl": 1024, "concurrency": 8, "batch_size": 8, "model_path": "Qwen/Qwen3-32B"}
    one = {"backend": engine, "backend_version": version, **load}
    sweep = {**one, "source": "nvidia-sweep/h100_sxm"}
    write(tmp_path / "points.csv", [{**samples.AICONFIGURATOR, **changed} for changed in (one, sweep)])
    _, found = (one.server for one in read_points(tmp_path) if isinstance(one, Point))
    assert (found.max_num_batched_tokens, found.memory, found.mixed_chunk) == expected


@pytest.mark.parametrize(
    ("tensor", "split", "dealt", "expected"),
    [(4, 4, 1, "TP 4"), (4, 1, 4, "TP 4, EP"), (64, 8, 8, "TP 8, EP"), (16, 4, 4, "TP 4, EP")],
)
def test_experts_are_split_or_dealt_out_and_a_product_is_not_counted_twice(
    tensor: int, split: int, dealt: int, expected: str, tmp_path: Path
) -> None:
    # InferenceX has the runs of (64, 8, 8) as 8 GPUs with the experts dealt out over them.
    changed = {"model_path": "openai/gpt-oss-120b", "precision": "fp4", "system": "h200_sxm"}
    sizes = {"tp_size": tensor, "moe_tp_size": split, "moe_ep_size": dealt}
    write(tmp_path / "points.csv", [{**samples.AICONFIGURATOR, **changed, **sizes}])
    assert only_point(tmp_path).server.parallel == expected


def test_a_row_without_means_is_scored_by_its_medians(tmp_path: Path) -> None:
    bare = {"mean_ttft": "", "mean_tpot": "", "mean_e2el": ""}
    write(tmp_path / "a.csv", [samples.INFERENCEX, {**samples.INFERENCEX, **bare}])
    whole, medians = (one for one in read_points(tmp_path) if isinstance(one, Point))
    # 250 tokens a second and GPU, on two GPUs.
    assert whole.measured == {"ttft": 0.05, "tpot": 0.011, "e2e": 1.3, "throughput": 500.0}
    assert (whole.statistic, whole.precision, whole.server.version) == ("mean", "mxfp4", "0.22.0")
    assert medians.measured == {"ttft": 0.04, "tpot": 0.010, "e2e": 1.2}
    assert medians.statistic == "median"


def test_flags_are_those_of_the_public_scripts(tmp_path: Path) -> None:
    """dsr1_fp8_b200.sh: --scheduler-recv-interval 10, or 30 from 16 requests in flight on; chunks of 32768.

    dsr1_fp8_h200_trt.sh: --max_num_tokens is the prompt, the requests and 64, in steps of 64, at least 8192.
    """
    shape = {"model": "deepseek-ai/DeepSeek-R1", "precision": "fp8", "decode_tp": 8, "hardware": "b200"}
    changes: list[dict[str, Any]] = [
        {"framework": "sglang", "conc": 8},
        {"framework": "sglang", "conc": 16},
        {"framework": "sglang", "hardware": "h200"},
        {"framework": "trt", "hardware": "h200", "isl": 8192, "conc": 64},
        {"framework": "vllm", "model": "openai/gpt-oss-120b", "precision": "fp4"},
    ]
    write(tmp_path / "a.csv", [{**samples.INFERENCEX, **shape, **changed} for changed in changes])
    servers = [one.server for one in read_points(tmp_path) if isinstance(one, Point)]
    assert [one.receive_interval for one in servers] == [10, 30, 1, 1, 1]
    assert [one.max_num_batched_tokens for one in servers] == [32768, 32768, 32768, 8320, 8192]
    # --kv-cache-dtype fp8_e4m3, kv_cache_config.dtype and kv-cache-dtype; the script for H200 sets none.
    assert [one.kv_dtype for one in servers] == ["fp8", "fp8", "auto", "fp8", "fp8"]
    assert [one.memory for one in servers] == [0.82, 0.82, 0.82, 0.75, None]


def test_flags_of_tensorrt_llm_are_those_of_the_scripts_of_the_date(tmp_path: Path) -> None:
    """dsr1_fp8_b200_trt_slurm.sh of 2025: DEEPGEMM, and --max_num_tokens of one prompt and the requests.

    dsr1_fp8_b200_trt.sh of 2026: at least 8192 tokens, and at 1k/1k from 64 requests in flight on graphs of
    prompts, batch_wait_timeout_iters 40 and batch_wait_max_tokens_ratio 0.8.
    """
    shape = {"framework": "trt", "model": "deepseek-ai/DeepSeek-R1", "precision": "fp8", "hardware": "b200"}
    changes: list[dict[str, Any]] = [
        {"date": "2025-11-13", "conc": 64},
        {"date": "2026-03-01", "conc": 64},
        {"date": "2026-03-01", "conc": 32},
        {"date": "2026-03-01", "conc": 256, "osl": 8192},
    ]
    shape = {**samples.INFERENCEX, **shape, "isl": 1024, "osl": 1024, "decode_tp": 8}
    write(tmp_path / "a.csv", [{**shape, **one} for one in changes])
    servers = [one.server for one in read_points(tmp_path) if isinstance(one, Point)]
    # (64 + 1024 + 64 + 63) // 64 * 64 = 1152.
    assert [one.max_num_batched_tokens for one in servers] == [1152, 8192, 8192, 8192]
    assert [one.version for one in servers] == ["1.1.0rc2.post2", "", "", ""]
    assert [one.expert_parallel for one in servers] == [True, False, False, False]
    assert [one.moe_backend for one in servers] == ["DEEPGEMM", "TRTLLM", "TRTLLM", "DEEPGEMM"]
    assert [one.batch_wait for one in servers] == [(0, 0.0), (40, 0.8), (0, 0.0), (0, 0.0)]
    assert [one.prompt_graphs for one in servers] == [False, True, False, False]


def test_a_configuration_was_run_without_drafts_if_one_of_its_rows_was(tmp_path: Path) -> None:
    # InferenceX's database has one spec_method for a configuration: hardware, engine, model and split.
    def row(concurrency: int, configuration: int, method: str) -> dict[str, Any]:
        load = {"concurrency": concurrency, "batch_size": concurrency}
        named = {"id": f"dsr1_{configuration}", "inferencex_config_id": configuration, "spec_method": method}
        shape = {"model_path": "deepseek-ai/DeepSeek-V3", "precision": "fp8", "system": "h200_sxm"}
        split = {"tp_size": 8, "moe_tp_size": 8, "silicon_tpot_ms": 8.0 + concurrency}
        return {**samples.AICONFIGURATOR, **load, **named, **shape, **split}

    rows = [row(1, 7, "none"), row(2, 7, "unknown"), row(3, 8, "unknown"), row(4, 9, "mtp")]
    copied = {**row(2, 7, "unknown"), "id": "2026_04_06", "inferencex_config_id": ""}
    write(tmp_path / "points.csv", [*rows, copied])
    points = [one for one in read_points(tmp_path) if isinstance(one, Point)]
    assert [one.in_flight for one in points] == [1.0, 2.0, 2.0], "the last is the second run once more"
    assert [one.server.model.name for one in points] == ["deepseek-r1", "deepseek-r1", "deepseek-v3"]
    assert len(refusals(tmp_path)) == 2


def test_nvfp4_is_what_published_checkpoints_quantise(tmp_path: Path) -> None:
    # hf_quant_config.json of nvidia/DeepSeek-V3.1-NVFP4 leaves out q_a, q_b, kv_a and kv_b, that of
    # nvidia/MiniMax-M2.5-NVFP4 self_attn. dsr1_fp4_b200.sh: --chunked-prefill-size 16384.
    shape = {"precision": "fp4", "hardware": "b200", "framework": "sglang", "decode_tp": 8}
    models = ("nvidia/DeepSeek-R1-0528-FP4-V2", "MiniMaxAI/MiniMax-M2.5")
    write(tmp_path / "a.csv", [{**samples.INFERENCEX, **shape, "model": model} for model in models])
    servers = [one.server for one in read_points(tmp_path) if isinstance(one, Point)]
    of = [(one.model.projection_dtype, one.model.output_projection_dtype) for one in servers]
    assert of == [("bfloat16", "nvfp4"), ("bfloat16", "bfloat16")]
    assert [one.model.expert_dtype for one in servers] == ["nvfp4", "nvfp4"]
    assert (servers[0].max_num_batched_tokens, servers[0].kv_dtype) == (16384, "fp8")


def test_ranks_of_attention_are_as_many_as_the_scripts_start(tmp_path: Path) -> None:
    ranks: list[tuple[str, int, int, int, int]] = [
        ("b200_sxm", 1, 16, 4, 4),  # both counts are products: InferenceX has 4 GPUs
        ("b200_sxm", 2, 2, 1, 4),  # --tensor-parallel-size=1 --data-parallel-size=$TP, TP 2
        ("h100_sxm", 4, 4, 1, 16),  # minimaxm2.5_fp8_h100.sh has --tensor-parallel-size=$TP alone
    ]
    rows = [
        {
            **samples.AICONFIGURATOR,
            **{"system": system, "model_path": "MiniMaxAI/MiniMax-M2.5", "precision": "fp8"},
            **{"concurrency": 64, "batch_size": 64 // data, "tp_size": tensor, "attention_dp_size": data},
            **{"moe_tp_size": split, "moe_ep_size": dealt},
        }
        for system, tensor, data, split, dealt in ranks
    ]
    write(tmp_path / "points.csv", rows)
    points = [one for one in read_points(tmp_path) if isinstance(one, Point)]
    assert [one.server.parallel for one in points] == ["DP 4, EP", "DP 2, EP", "TP 4, EP"]
    assert [one.server.gpus for one in points] == [4, 2, 4]
    assert [one.in_flight for one in points] == [16.0, 32.0, 64.0]


def test_a_run_with_a_stall_is_scored_by_its_medians(tmp_path: Path) -> None:
    late = {"mean_ttft": 7.5, "p99_ttft": 72.0}
    rows = [{**samples.INFERENCEX, "p99_ttft": 0.2}, {**samples.INFERENCEX, **late}]
    queued = {**samples.INFERENCEX, **late, "median_ttft": 14.0}
    write(tmp_path / "a.csv", [*rows, queued])
    found = [one for one in read_points(tmp_path) if isinstance(one, Point)]
    assert [one.statistic for one in found] == ["mean", "median", "mean"]
    assert found[1].measured["ttft"] == 0.04


def test_a_sweep_whose_ttft_rises_with_its_answers_runs_one_request_fewer(tmp_path: Path) -> None:
    sweep = {"backend": "trtllm", "backend_version": "1.0.0rc3", "source": "nvidia-sweep/h100_sxm/trtllm"}
    others: list[dict[str, Any]] = [{}, {"model_path": "Qwen/Qwen3-32B", "precision": "fp8"}]
    write(tmp_path / "points.csv", [{**samples.AICONFIGURATOR, **sweep, **changed} for changed in others])
    servers = [one.server for one in read_points(tmp_path) if isinstance(one, Point)]
    assert [one.max_num_seqs for one in servers] == [3, None]
    # 128 x 2,176 tokens of 128 KiB in 8 bits are 36.5 GB, beside 33 GB of weights; in 16 bits 73 GB.
    assert [one.kv_dtype for one in servers] == ["auto", "fp8"]


def test_points_to_which_something_was_fitted_say_so(tmp_path: Path) -> None:
    bare = {"framework": "trt", "image": ""}
    named = {"framework": "trt", "image": "nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc2"}
    rows = [{**samples.INFERENCEX, **changed} for changed in ({}, named, bare)]
    write(tmp_path / "a.csv", rows)
    found = [one.fitted for one in read_points(tmp_path) if isinstance(one, Point)]
    # The sample is gpt-oss-120b on H200, whose experts run in Marlin's kernels under vLLM, else in Triton's.
    assert found == ["rate of experts, front end", "launches", "front end, launches"]


def test_rows_of_low_quality_and_of_other_designs_are_refused(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {"src": "together-tuned"},
        {"disagg": True, "prefill_num_workers": 0},
        {"disagg": True, "decode_tp": 16},
        {"spec_method": "mtp"},
        {"decode_tp": 8, "decode_ep": 2},
    ]
    write(tmp_path / "a.csv", [{**samples.INFERENCEX, **changed} for changed in changes])
    words = (
        "low quality",
        "do not describe",
        "more than eight GPUs",
        "drafts",
        "both split and dealt out",
    )
    found = refusals(tmp_path)
    assert len(found) == len(words)
    assert all(word in reason for word, reason in zip(words, found, strict=True))


def test_instances_apart_are_joined_by_a_network_that_is_assumed(tmp_path: Path) -> None:
    apart = {"disagg": True, "framework": "dynamo-sglang", "prefill_num_workers": 2, "decode_num_workers": 4}
    write(tmp_path / "a.csv", [{**samples.INFERENCEX, **apart}])
    point = only_point(tmp_path)
    server = point.server
    assert (server.engine, server.prefill, server.instances, server.network) == (
        "sglang",
        2,
        6,
        "infiniband-ndr",
    )
    assert (point.groups()["load"], point.in_flight) == ("prefill apart, network assumed", 2.0)
    assert "throughput" not in point.measured, "the data have it by GPUs of both kinds"


def test_instances_that_prefill_are_split_in_a_way_of_their_own(tmp_path: Path) -> None:
    apart = {"disagg": True, "framework": "dynamo-trt", "decode_num_workers": 3, "decode_tp": 8}
    ranks = {"prefill_tp": 4, "prefill_ep": 4, "prefill_dp_attention": True}
    write(tmp_path / "a.csv", [{**samples.INFERENCEX, **apart, **ranks}])
    point = only_point(tmp_path)
    # One instance of four GPUs and three of eight.
    assert (point.server.gpus, point.server.instances) == (28, 4)
    assert (point.server.tensor_parallel, point.server.prefilling.data_parallel) == (8, 4)
    assert point.groups()["load"] == "prefill apart, ranks of attention, network assumed"


@pytest.mark.parametrize(
    ("prompt", "precision", "expected"),
    [(1024, "fp8", 16384), (8192, "fp8", 8320), (8192, "fp4", 16640), (16384, "fp8", 16384 + 256 + 64)],
)
def test_instances_apart_take_the_prompts_of_their_recipes_in_a_step(
    prompt: int, precision: str, expected: int, tmp_path: Path
) -> None:
    # srt-slurm's ctx1_gen1_dep8_batch512 and ctx1_gen4_tep8_batch16; of other lengths, what a prompt needs.
    apart = {"disagg": True, "framework": "dynamo-trt", "decode_tp": 8, "decode_ep": 8, "isl": prompt}
    load = {"hardware": "gb200", "model": "deepseek-r1", "precision": precision, "conc": 256}
    ranks = {"prefill_tp": 4, "prefill_dp_attention": True}
    write(tmp_path / "a.csv", [{**samples.INFERENCEX, **apart, **load, **ranks}])
    assert only_point(tmp_path).server.max_num_batched_tokens == expected


def test_instances_apart_without_ranks_have_no_less_than_the_engines_own_tokens_a_step(
    tmp_path: Path,
) -> None:
    # TensorRT-LLM's default of max_num_tokens; experts dealt out have the script's tokens in one place only.
    apart = {"disagg": True, "framework": "dynamo-trt", "decode_tp": 8, "decode_ep": 8, "isl": 1024}
    load = {"hardware": "gb200", "model": "deepseek-r1", "precision": "fp8", "conc": 256}
    write(tmp_path / "a.csv", [{**samples.INFERENCEX, **apart, **load}])
    assert only_point(tmp_path).server.max_num_batched_tokens == 8192


def test_a_recipe_says_how_gpus_share_attention_where_data_have_a_split_of_one(tmp_path: Path) -> None:
    # srt-slurm's gb200-fp8/1k1k/low-latency.yaml: tensor-parallel-size: 4, data-parallel-size: 1.
    shape = {"disagg": True, "framework": "dynamo-sglang", "hardware": "gb200", "model": "deepseek-r1"}
    one = {f"{side}_{what}": 1 for side in ("prefill", "decode") for what in ("tp", "ep")}
    ranks = {"prefill_dp_attention": True, "decode_dp_attention": True, "precision": "fp8"}
    gpus = {"num_prefill_gpu": 4, "num_decode_gpu": 16, "decode_num_workers": 4}
    write(tmp_path / "a.csv", [{**samples.INFERENCEX, **shape, **one, **ranks, **gpus}])
    server = only_point(tmp_path).server
    assert (server.parallel, server.gpus) == ("1P4D, TP 4", 20)
    assert server.assumed == "network"


def test_a_saturated_server_takes_a_token_for_each_running_request_in_turn(tmp_path: Path) -> None:
    write(tmp_path / "points.csv", [samples.MLENERGY])
    samples.histogram(tmp_path, [100.0, 200.0, 300.0], [0, 5])
    point = only_point(tmp_path)
    assert point.measured == {"tpot": pytest.approx(4 / 400), "throughput": 400.0}
    load = point.workload.load(0)
    lengths = load.trace.frame["output_tokens"]
    assert (load.steady, len(lengths), load.clients) == (True, 16, Concurrency(4))
    assert lengths.min() >= 200, "no output is in the first bin"  # type: ignore[operator]
    assert lengths.max() <= 300  # type: ignore[operator]


def test_prompts_that_matter_and_are_not_in_the_data_are_refused(tmp_path: Path) -> None:
    rows = [{**samples.MLENERGY, "task": "lm-arena-chat"}, {**samples.MLENERGY, "gpu_model": "B200"}]
    write(tmp_path / "points.csv", [*rows, samples.MLENERGY])
    prompts, doubtful, answers = refusals(tmp_path)
    assert prompts == "the lengths of the prompts are not in the data"
    assert doubtful.startswith("doubtful")
    assert answers == "the lengths of the answers are not in the data"


def test_an_open_loop_run_is_replayed_as_it_was_sent(tmp_path: Path) -> None:
    write(tmp_path / "run-a.csv.gz", samples.open_loop())
    point = only_point(tmp_path)
    assert point.id == "run-a.csv.gz#run-a"
    assert point.measured["tpot"] == pytest.approx(1.94 / 100)
    # 40 requests of 2 s in 21.5 s.
    assert point.in_flight == pytest.approx(80 / 21.5)
    assert point.workload.load(0).clients is None


def test_a_client_that_is_late_was_held_back_by_its_limit(tmp_path: Path) -> None:
    write(tmp_path / "run-a.csv.gz", samples.open_loop(late_s=3.0))
    load = only_point(tmp_path).workload.load(0)
    # Four requests of 2 s are in flight at two a second; they are sent as they were scheduled.
    assert load.clients == Concurrency(4, gap_s=0.004)
    assert load.trace.frame["arrival"].to_list()[:3] == [0.0, 0.5, 1.0]
    assert only_point(tmp_path).groups()["load"] == "capped"


def test_a_stage_repeats_its_few_prompts_of_shared_beginnings(tmp_path: Path) -> None:
    write(tmp_path / "stages.csv", [samples.STAGE])
    point = only_point(tmp_path)
    assert point.measured["tpot"] == pytest.approx(0.220 / 20)
    frame = point.workload.load(0).trace.frame
    blocks = [tuple(ids) for ids in frame["prefix"].to_list()]
    assert len(set(blocks)) == 6, "three system prompts for two users each"
    assert blocks[:6] == blocks[6:12], "they are sent in turn"
    assert {len(ids) for ids in blocks} == {6}, "96 tokens in blocks of 16"
    assert len({ids[:2] for ids in blocks}) == 3, "the 32 tokens of a system prompt are two blocks"
    assert len({block for ids in blocks for block in ids[2:]}) == 6 * 4, "the rest is each prompt's own"
    assert frame["arrival"].to_list()[:3] == pytest.approx([0.0, 0.2, 0.4])


def test_a_stage_has_what_other_predictors_said_of_it(tmp_path: Path) -> None:
    write(tmp_path / "stages.csv", [samples.STAGE])
    told = {"pred_other_ttft_mean": 20.0, "pred_other_itl_mean": 9.0, "pred_other_e2e_p90": 1.0}
    said = {"experiment": "20260101-one", "stage": 0, **told, "pred_silent_e2e_mean": ""}
    write(tmp_path / "peer_predictions.csv", [said])
    point = next(one for one in read_points(tmp_path) if isinstance(one, Point))
    assert set(point.peers) == {"other"}
    assert point.peers["other"] == pytest.approx({"ttft": 0.020, "tpot": 0.009})


def test_a_stage_that_answers_less_than_was_asked_is_at_the_edge_and_one_that_failed_is_refused(
    tmp_path: Path,
) -> None:
    slow, failed = {**samples.STAGE, "requests_per_sec": 4.7}, {**samples.STAGE, "failed": 3}
    write(tmp_path / "stages.csv", [samples.STAGE, slow, failed])
    regimes = [one.regime for one in read_points(tmp_path) if isinstance(one, Point)]
    assert regimes == ["light", "edge of capacity"]
    assert refusals(tmp_path) == ["an overloaded run with failed requests"]


def test_runs_whose_requests_are_not_in_the_data_are_refused(tmp_path: Path) -> None:
    row = {"set": "a", "experiment": "x", "workload": "y", "stage": 0, "meas_ttft_mean_ms": 1.0}
    write(tmp_path / "runs.csv", [{**row, "meas_itl_mean_ms": 1.0}])
    write(tmp_path / "totals.csv", [{"stack": "s", "conc": 1, "total_tok_s": 2, "med_tpot_ms": 3.0}])
    assert refusals(tmp_path) == [
        "the requests that were sent are not in the data",
        "the lengths of the requests are not in the data",
    ]


def test_each_rate_of_a_file_of_requests_is_a_point_on_the_replicas_that_its_name_has(tmp_path: Path) -> None:
    rows = [
        {**samples.LMBENCH, "qps": rate, "launch_s": i / rate, "finish_s": i / rate + 0.5}
        for rate in (1.0, 2.0)
        for i in range(10)
    ]
    write(tmp_path / "req_x_2replicas-H100_y.csv.gz", rows)
    one, two = (found for found in read_points(tmp_path) if isinstance(found, Point))
    assert (one.server.instances, one.server.gpu, one.server.parallel) == (2, "h100-sxm", "2 x TP 2")
    assert one.measured["tpot"] == pytest.approx(0.4 / 20)
    assert one.measured["throughput"] == pytest.approx(210 / 9.5)
    assert two.in_flight == pytest.approx(10 * 0.5 / 5.0 / 2)
    assert (one.edge, two.edge) == (False, False)


def test_a_run_whose_queue_grows_is_at_the_edge(tmp_path: Path) -> None:
    rows = [{**samples.LMBENCH, "launch_s": float(i), "finish_s": 2.0 * i + 1} for i in range(20)]
    write(tmp_path / "req_x.csv", rows)
    assert only_point(tmp_path).edge


def test_after_a_run_that_was_cut_off_rates_are_refused(tmp_path: Path) -> None:
    sizes = {1.0: 10, 2.0: 6, 4.0: 2, 8.0: 10}
    rows = [
        {**samples.LMBENCH, "qps": rate, "launch_s": i / rate, "finish_s": i / rate + 0.5}
        for rate, size in sizes.items()
        for i in range(size)
    ]
    write(tmp_path / "req_x.csv", rows)
    kept = [found.id for found in read_points(tmp_path) if isinstance(found, Point)]
    assert kept == ["req_x.csv#1 requests/s", "req_x.csv#2 requests/s"]
    assert refusals(tmp_path) == ["doubtful: since a run that was cut off, fewer instances serve"] * 2


def test_a_sweep_replays_the_lengths_that_its_prompts_add_up_to(tmp_path: Path) -> None:
    lengths = [{"i": i, "input_lens": 100, "output_lens": 10 + i, "ttfts": 0.04} for i in range(9)]
    write(tmp_path / "requests_c2.csv", lengths)
    other = {**samples.SWEEP, "run": "other", "total_input_tokens": 401}
    write(tmp_path / "sweeps.csv", [samples.SWEEP, other, {**samples.SWEEP, "spec": "eagle3 num_spec=1"}])
    same, drawn = (one for one in read_points(tmp_path) if isinstance(one, Point))
    assert same.workload.load(0).trace.frame["output_tokens"].to_list() == [10, 11, 12, 13]
    assert isinstance(drawn.workload, Closed)
    assert refusals(tmp_path) == ["drafts by EAGLE3, of a model that is not in the catalog"]


def test_prefill_apart_is_one_instance_of_each_and_replicas_are_two(tmp_path: Path) -> None:
    rows = [{**samples.APART, "deployment": name} for name in ("llm-d-1p1d", "vllm-2replicas", "wide-ep")]
    write(tmp_path / "pd.csv", rows)
    apart, replicas = (one for one in read_points(tmp_path) if isinstance(one, Point))
    assert (apart.server.parallel, replicas.server.parallel) == ("1P1D, TP 1", "2 x TP 1")
    assert [one.groups()["load"] for one in (apart, replicas)] == ["prefill apart", "open loop"]
    frame = apart.workload.load(0).trace.frame
    assert set(frame["prompt_tokens"]) == {8000}
    # Gamma gaps of shape 100 have a tenth of their mean as deviation: ten of them take about 10 / 3.6 s.
    assert frame["arrival"].to_list()[-1] == pytest.approx(9 / 3.6, rel=0.2)
    assert refusals(tmp_path) == ["a deployment of another kind, wide-ep"]


def test_files_of_no_known_kind_are_named_and_a_folder_must_exist(tmp_path: Path) -> None:
    write(tmp_path / "below/other.csv", [{"a": 1}])
    assert list(read_points(tmp_path)) == [Unread("below/other.csv")]
    with pytest.raises(ConfigError, match="must be a folder of measured data"):
        list(read_points(tmp_path / "nowhere"))

"""What the public scripts and recipes say of servers, beyond what the data have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.hardware import Gpu
from paceline.model import Model
from paceline.policy import inst, pick
from paceline.validation.points.point import Point, Server
from paceline.validation.points.predicting import predict_point
from paceline.validation.points.readers import read_points
from paceline.validation.points.readers.recipes import seats_of
from paceline.validation.points.readers.scripts import Run, flags_of, settled
from paceline.validation.points.serving import cluster_of, host_of, policy_of
from paceline.validation.points.workloads import Closed
from paceline.validation.resolving import find_model
from unit.validation.points import samples
from unit.validation.points.samples import write

DEEPSEEK = Run("trtllm", Model.load("deepseek-r1"), "b200", 8)
NVFP4 = Run("trtllm", replace(Model.load("deepseek-r1"), weight_dtype="nvfp4"), "b200", 8, date="2025-11-02")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        # dsr1_fp4_b200_trt_slurm.sh of 2025: EP_SIZE="" below 16 and 32 requests, else $TP; at 8k/1k $TP.
        ({"concurrency": 8}, (1, False)),
        ({"concurrency": 16}, (1, True)),
        ({"concurrency": 16, "output": 8192}, (1, False)),
        ({"concurrency": 32, "output": 8192}, (1, True)),
        ({"concurrency": 4, "prompt": 8192}, (1, True)),
        # Rows of the 13th have ranks of attention for the same loads.
        ({"concurrency": 64, "prompt": 8192}, (8, True)),
        ({"concurrency": 256}, (8, True)),
        ({"concurrency": 256, "date": "2025-11-13"}, (1, False)),
        # dsr1_fp4_b200_docker.sh: --enable-ep-moe.
        ({"engine": "sglang", "concurrency": 4}, (1, True)),
        ({"engine": "sglang", "concurrency": 4, "date": "2025-11-13"}, (1, False)),
        ({"engine": "sglang", "concurrency": 4, "scripted": False}, (1, False)),
    ],
)
def test_early_rows_are_split_as_the_scripts_of_their_day(
    changed: dict[str, Any], expected: tuple[int, bool]
) -> None:
    run = settled(NVFP4._replace(**changed))
    assert (run.ranks, run.dealt) == expected


def test_a_split_that_the_data_have_is_kept() -> None:
    run = settled(NVFP4._replace(concurrency=4, ranks=4, dealt=True))
    assert (run.ranks, run.dealt) == (4, True)


def test_experts_of_gpt_oss_are_dealt_out_on_h200() -> None:
    oss = Run("trtllm", find_model("gpt-oss-120b"), "h200", 2)
    assert settled(oss).dealt
    assert not settled(oss._replace(gpus=1)).dealt
    assert not settled(oss._replace(gpu="b200")).dealt


@pytest.mark.parametrize(("gpu", "flops"), [("b200", 440e12), ("b300", 440e12), ("h200", 0.0)])
def test_fp8_matrices_of_sglang_on_blackwell_are_flashinfers(gpu: str, flops: float) -> None:
    # SGL_ENABLE_JIT_DEEPGEMM=false. 2 x 1,024 x 24,576 x 7,168 FLOP in 826 us are 437 TFLOP/s.
    run = DEEPSEEK._replace(engine="sglang", gpu=gpu)
    for scripted in (True, False):
        assert flags_of(run._replace(scripted=scripted)).matrix_flops == flops
    assert flags_of(NVFP4._replace(engine="sglang", gpu=gpu)).matrix_flops == 0.0
    assert flags_of(run._replace(engine="trtllm")).matrix_flops == 0.0


def test_prompts_of_ranks_wait_for_each_other_for_as_many_steps_as_the_scripts_say() -> None:
    # dsr1_fp4_b200_trt.sh and dsr1_fp8_b200_trt.sh: timeout_iters: 60, batching_wait_iters: 0.
    # gptoss_fp4_b200_trt.sh has enable_balance alone, beside TensorRT-LLM's defaults of 50 and 10.
    run = DEEPSEEK._replace(date="2025-11-13", ranks=8, dealt=True, concurrency=64)
    assert flags_of(run).balance == flags_of(run._replace(date="2026-03-01")).balance == (60, 0)
    assert flags_of(run._replace(model=find_model("gpt-oss-120b"), ranks=2)).balance == (50, 10)
    # The 40 steps for a batch are those of one rank alone.
    alone = flags_of(run._replace(ranks=1, date="2026-03-01"))
    assert (alone.balance, alone.batch_wait) == (None, (40, 0.8))
    assert flags_of(run._replace(date="2026-03-01")).batch_wait == (0, 0.0)
    assert flags_of(run._replace(scripted=False)).balance is None
    assert flags_of(run._replace(engine="sglang")).balance is None


def test_a_recipe_has_the_seats_of_its_name() -> None:
    # ctx1_gen3_tep8_batch4_eplb0_mtp0_18.yaml, ctx2_gen1_dp8_batch1024_eplb0_mtp0_16384.yaml.
    apart = DEEPSEEK._replace(gpu="gb200", prompt=8192, concurrency=18, scripted=False)
    assert seats_of(apart, 1, 3) == 4
    assert seats_of(apart, 1, 4) is None
    wide = DEEPSEEK._replace(gpu="b300", concurrency=16384, scripted=False)
    assert seats_of(wide, 2, 1) == 1024
    assert seats_of(wide._replace(scripted=True), 2, 1) is None
    assert seats_of(wide._replace(engine="sglang"), 2, 1) is None


def test_seats_of_a_recipe_are_those_of_instances_that_decode(tmp_path: Path) -> None:
    shape = {"disagg": True, "framework": "dynamo-trt", "hardware": "gb200", "model": "deepseek-r1"}
    load = {"precision": "fp8", "isl": 8192, "osl": 1024, "conc": 6, "decode_tp": 8, "decode_ep": 8}
    ranks = {"prefill_tp": 8, "prefill_ep": 8, "prefill_dp_attention": True, "decode_num_workers": 3}
    write(tmp_path / "a.csv", [{**samples.INFERENCEX, **shape, **load, **ranks}])
    (point,) = (one for one in read_points(tmp_path) if isinstance(one, Point))
    assert point.server.max_num_seqs == 1
    scheduler: Any = policy_of(point.server).scheduler
    assert (scheduler["decode"].max_num_seqs, scheduler["prefill"].max_num_seqs) == (1, 2048)


def apart(**changed: Any) -> Point:
    """Return a closed loop of two requests on an instance that prefills and one that decodes."""
    given = {"engine": "trtllm", "version": "", "model": find_model("llama-3.1-8b"), "gpu": "h100-sxm"}
    server = Server(**{**given, "instances": 2, "prefill": 1, "network": "infiniband-ndr", **changed})
    return Point(
        id="a",
        server=server,
        precision="bf16",
        workload=Closed(prompt_tokens=100, output_tokens=50, concurrency=2, requests=8, least=1.0),
        measured={"ttft": 1.0, "tpot": 1.0, "e2e": 1.0},
        in_flight=2.0,
    )


def predicted(point: Point) -> dict[str, float]:
    return predict_point(point, cluster_of(point.server, "roofline", {}), policy_of(point.server))


def test_the_first_token_comes_from_the_instance_that_decodes() -> None:
    wide, narrow = apart(), apart(max_num_seqs=1)
    free, queued = predicted(wide), predicted(narrow)
    # One seat for two requests in flight: each waits for the other's answer, but the very first.
    assert free["ttft"] < 0.2
    assert queued["ttft"] > 0.5 * 49 * queued["tpot"]
    for found in (free, queued):
        assert found["e2e"] == pytest.approx(found["ttft"] + 49 * found["tpot"], rel=1e-9)


def test_an_instance_that_decodes_receives_requests_in_steps() -> None:
    each, tenth = (predicted(apart(engine="sglang", receive_interval=steps)) for steps in (1, 10))
    assert tenth["ttft"] - each["ttft"] == pytest.approx(10 * each["tpot"])
    assert tenth["e2e"] - each["e2e"] == pytest.approx(10 * each["tpot"])
    assert tenth["tpot"] == each["tpot"]


def test_a_run_without_graphs_takes_longer_steps(tmp_path: Path) -> None:
    write(tmp_path / "pd.csv", [samples.APART])
    (point,) = (one for one in read_points(tmp_path) if isinstance(one, Point))
    assert point.server.step_s == 0.002
    slow: Any = cluster_of(point.server, "roofline", {}).instances[0].cost
    efficiency = Gpu.load("h100-sxm").efficiency
    assert efficiency is not None
    assert slow.efficiency.step_s - efficiency.step_s == pytest.approx(0.002)


def test_early_trtllm_on_h200_starts_colder_than_after_warm_ups() -> None:
    run = DEEPSEEK._replace(gpu="h200", date="2025-12-15")
    assert flags_of(run).cold_s == 2.0
    assert (
        flags_of(run._replace(date="2026-05-18")).cold_s == flags_of(run._replace(gpu="b200")).cold_s == 0.3
    )
    assert flags_of(run._replace(scripted=False)).cold_s == 0.0


def test_sglang_with_prefill_apart_starts_as_cold_as_one_instance() -> None:
    run = DEEPSEEK._replace(engine="sglang", gpu="gb200", scripted=False)
    assert flags_of(run).cold_s == flags_of(run._replace(scripted=True)).cold_s == 0.3
    assert flags_of(run._replace(model=find_model("gpt-oss-120b"))).cold_s == 0.0


@pytest.mark.parametrize(("gpu", "backend", "launches"), [("h200", "TRITON", 36 * 0.0012), ("b200", "", 0.0)])
def test_experts_in_triton_are_launched_layer_by_layer(gpu: str, backend: str, launches: float) -> None:
    """`moe_config` of gptoss_fp4_h200_trt.sh has Triton's kernels; the script for B200 TensorRT-LLM's own."""
    model = find_model("gpt-oss-120b")
    flags = flags_of(DEEPSEEK._replace(model=model, gpu=gpu))
    assert flags.moe_backend == backend
    server = Server(engine="trtllm", version="", model=model, gpu=gpu, moe_backend=flags.moe_backend)
    host = host_of(server, "tables")
    assert host is not None
    assert host.prompt_step_s == pytest.approx(launches)


def test_ranks_whose_prompts_wait_for_each_other_get_requests_by_their_number() -> None:
    """`_balance_requests_across_ranks` gives a request to a rank with the fewest; else they go in turn."""
    given = {"engine": "trtllm", "version": "", "model": find_model("deepseek-r1"), "gpu": "b200"}
    known = Server(**given, data_parallel=8, balance=(60, 0))
    unknown = replace(known, balance=None)
    assert (known.assumed, unknown.assumed) == ("", "balance")
    assert policy_of(known).on_arrival == pick(min=inst.requests)
    assert policy_of(unknown).on_arrival == "round_robin"

"""The suite: all points of a folder replayed, drawn, named, refused and scored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline import Cluster, ConfigError, Instance, Trace, replay
from paceline.concurrency import Concurrency
from paceline.cost import Roofline
from paceline.hardware import Gpu
from paceline.model import Model
from paceline.policies import vllm
from paceline.validation import suite
from paceline.validation.points.point import Point, Server
from paceline.validation.points.predicting import predict_point
from paceline.validation.points.readers import read_points
from paceline.validation.points.serving import Unserved, cluster_of, policy_of, table_of
from paceline.validation.resolving import find_model
from unit.validation.points import samples
from unit.validation.points.samples import write


@pytest.fixture(autouse=True)
def no_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imported profiles of the user's are not looked at."""
    monkeypatch.setenv("PACELINE_PROFILES", str(tmp_path / "profiles"))


def server(**fields: Any) -> Server:
    given = {"engine": "vllm", "version": "0.19.0", "model": find_model("llama-3.1-8b"), "gpu": "h100-sxm"}
    return Server(**{**given, **fields})


def by_hand(row: Mapping[str, Any]) -> Any:
    """Replay a closed loop on an H200 with the roofline and a front end, without the suite."""
    generator = np.random.default_rng(0)
    count = 10 * row["concurrency"]
    prompts, outputs = (
        generator.integers(round(0.8 * row[size]), row[size] + 1, count) for size in ("isl", "osl")
    )
    trace = Trace.from_columns(arrival=[0.0] * count, prompt_tokens=prompts, output_tokens=outputs)
    instance = Instance(model="llama-3.1-8b", gpu="h200", gpu_memory_utilization=0.9, max_model_len="auto")
    policy = vllm(async_scheduling=True)
    cluster = Cluster([instance], frontend_s=0.006 + 4e-6 * float(prompts.mean()))
    return replay(trace, cluster, policy, clients=Concurrency(row["concurrency"])).requests


def test_a_closed_loop_is_scored_against_the_means_of_its_replay(tmp_path: Path) -> None:
    row = {**samples.AICONFIGURATOR, "system": "h200_sxm"}
    write(tmp_path / "data/points.csv", [row])
    rows = by_hand(row)
    found = suite(tmp_path / "data", workers=2)
    # The front end is that of vLLM 0.15 to 0.23, in which this row's 0.19.0 lies.
    expected = {"ttft": rows["ttft"].mean() / 0.030 - 1, "tpot": rows["tpot"].mean() / 0.008 - 1}
    assert found.points[0].errors("roofline") == pytest.approx(expected, rel=1e-9)
    document = found.to_json()
    assert document["overall"]["tpot"]["n"] == 1
    assert document["overall"]["tpot"]["bias"] == pytest.approx(expected["tpot"], abs=1e-6)
    assert document["groups"]["engine"] == {"vllm 0.19.0": document["overall"]}
    assert document["without_tables"] == {"no kernels of vllm on h200 are imported": 1}
    json.dumps(document, allow_nan=False)


def test_refusals_are_counted_by_reason_and_draws_say_how_many_of_how_many(tmp_path: Path) -> None:
    rows = [{**samples.AICONFIGURATOR, "osl": 16 + i} for i in range(6)]
    rows += [{**samples.AICONFIGURATOR, "mode": "disagg"}] * 2 + [
        {**samples.AICONFIGURATOR, "precision": "fp4"}
    ]
    write(tmp_path / "data/points.csv", rows)
    found = suite(tmp_path / "data", points=4, seed=1, workers=1)
    assert (len(found.points), found.of) == (4, 6)
    assert list(found.reasons().values()) == [2, 1]
    same = suite(tmp_path / "data", points=4, seed=1, workers=2)
    assert [one.point.id for one in same.points] == [one.point.id for one in found.points]
    assert [one.values for one in same.points] == [one.values for one in found.points]
    other = suite(tmp_path / "data", points=4, seed=2, workers=1)
    assert [one.point.id for one in other.points] != [one.point.id for one in found.points]


def test_points_over_an_assumed_network_are_scored_apart(tmp_path: Path) -> None:
    apart = {"disagg": True, "framework": "dynamo-sglang", "osl": 16}
    write(tmp_path / "data/points.csv", [{**samples.INFERENCEX, "osl": 16}, {**samples.INFERENCEX, **apart}])
    document = suite(tmp_path / "data", workers=1).to_json()
    assert document["replayed"] == 2
    assert {document[name]["tpot"]["n"] for name in ("overall", "assumed")} == {1}
    assert set(document["groups"]["load"]) == {"closed loop"}


def test_the_command_of_a_point_names_it_and_replays_it_alone(tmp_path: Path) -> None:
    rows = [{**samples.AICONFIGURATOR, "osl": 16 + i} for i in range(3)]
    write(tmp_path / "data/points.csv", rows)
    folder = str(tmp_path / "data")
    every = suite(folder, workers=1)
    alone = suite(folder, only="points.csv#2", workers=1)
    assert [one.point.id for one in alone.points] == ["points.csv#2"]
    assert alone.points[0].values == every.points[1].values
    assert every.command(every.points[1].point) == f"paceline validate --suite {folder} --only 'points.csv#2'"
    with pytest.raises(ConfigError, match=r"only must be the id of a point, was 'points\.csv#9'"):
        suite(folder, only="points.csv#9")


def test_a_run_that_stands_in_two_collections_counts_once(tmp_path: Path) -> None:
    shared = {
        "model": "meta-llama/Llama-3.1-8B",
        "hardware": "h100",
        "precision": "bf16",
        "isl": 256,
        "osl": 32,
    }
    row = {**samples.INFERENCEX, **shared, "conc": 4, "decode_tp": 1, "mean_tpot": 0.008}
    write(tmp_path / "data/a.csv", [samples.AICONFIGURATOR])
    write(tmp_path / "data/b.csv", [row])
    found = suite(tmp_path / "data", workers=1)
    assert [one.point.id for one in found.points] == ["b.csv#1"], "the one with more metrics stays"
    assert found.reasons() == {"the same run stands in another file": 1}
    twice = suite(_repeated(tmp_path / "twice"), workers=1)
    assert twice.reasons() == {"the same run stands in the file twice": 1}
    assert len(twice.points) == 2


def _repeated(folder: Path) -> Path:
    """Write a run, the same once more, and another that agrees in six digits of TPOT."""
    near = {**samples.AICONFIGURATOR, "silicon_tpot_ms": 8.0000001}
    write(folder / "a.csv", [samples.AICONFIGURATOR, samples.AICONFIGURATOR, near])
    return folder


def test_what_the_callback_raises_ends_the_replays(tmp_path: Path) -> None:
    rows = [{**samples.AICONFIGURATOR, "tp_size": 2**i, "osl": 16 + j} for i in range(3) for j in range(40)]
    write(tmp_path / "data/points.csv", rows)
    calls = []

    def progress(done: int, total: int) -> None:
        calls.append((done, total))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        suite(tmp_path / "data", workers=2, progress=progress)
    assert len(calls) == 1
    assert calls[0][0] < calls[0][1] == 120


def test_a_seed_below_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"seed must be a whole number of at least 0, was -1"):
        suite(tmp_path, seed=-1)


def test_a_folder_without_points_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "other.csv", [{"a": 1}])
    with pytest.raises(ConfigError, match="must have a file of measured points"):
        suite(tmp_path)
    with pytest.raises(ConfigError, match="must be a folder of measured data"):
        suite(tmp_path / "nowhere")


def test_weights_that_do_not_fit_refuse_the_point_by_name(tmp_path: Path) -> None:
    large = {"model_path": "meta-llama/Llama-3.1-70B-Instruct"}
    write(tmp_path / "data/points.csv", [{**samples.AICONFIGURATOR, **large}])
    found = suite(tmp_path / "data", workers=1)
    assert found.points == []
    assert found.reasons() == {"the weights leave no memory for KV, by vLLM's rule": 1}


def test_blocks_are_those_of_the_engines_own_rule() -> None:
    """Llama-3.1-8B in bfloat16: 32 x 8 x 128 x 2 numbers of 2 bytes, 128 KiB a token, on an H100.

    SGLang's share holds weights and KV. TensorRT-LLM's is of what weights and a prefill leave, which is less.
    """
    model, gpu = find_model("llama-3.1-8b"), Gpu.load("h100-sxm")
    tokens = {}
    for engine, share in (("sglang", 0.8), ("trtllm", 0.8), ("trtllm", 0.4)):
        instance = cluster_of(server(engine=engine, memory=share), "roofline", {}).instances[0]
        assert instance.num_blocks is not None
        tokens[engine, share] = instance.num_blocks * instance.block_tokens
    left = 0.8 * gpu.memory_bytes - model.weight_bytes()
    assert tokens["sglang", 0.8] == int(left) // (128 << 10)
    assert tokens["trtllm", 0.8] < 0.8 * (gpu.memory_bytes - model.weight_bytes()) / (128 << 10)
    assert tokens["trtllm", 0.4] == pytest.approx(tokens["trtllm", 0.8] / 2, abs=32)


def test_tensorrt_llm_leaves_as_much_memory_for_deepseek_as_its_log_says() -> None:
    """Of an H200's 139.81 GiB, 91.46 are in use before KV, whose share is 0.85; a token has 35,136 bytes."""
    given = {"engine": "trtllm", "version": "", "model": find_model("deepseek-r1"), "gpu": "h200"}
    limits = {"tensor_parallel": 8, "max_num_batched_tokens": 16384, "memory": 0.85, "kv_dtype": "fp8"}
    instance = cluster_of(Server(**given, **limits), "roofline", {}).instances[0]
    assert instance.num_blocks is not None
    left = 0.85 * (139.81 - 91.46) * 2**30
    assert instance.num_blocks * instance.block_tokens * 35136 == pytest.approx(left, rel=0.002)


def test_a_saturated_server_is_measured_while_it_is_full(tmp_path: Path) -> None:
    samples.histogram(tmp_path, [300.0, 301.0], [1])
    write(tmp_path / "points.csv", [samples.MLENERGY])
    point: Any = next(iter(read_points(tmp_path)))
    values = predict_point(point, cluster_of(point.server, "roofline", {}), policy_of(point.server))
    # All four requests decode for almost all of the time, so that a step gives four tokens.
    step = values["tpot"]
    assert values["throughput"] == pytest.approx(4 / step, rel=0.03)
    instance = cluster_of(point.server, "roofline", {}).instances[0]
    four = Trace.from_columns(arrival=[0.0] * 4, prompt_tokens=[400] * 4, output_tokens=[2] * 4)
    assert step == pytest.approx(replay(four, Cluster([instance])).requests["tpot"][0], rel=0.05)


def test_whole_prompts_hit_the_prefix_cache_after_the_first_round(tmp_path: Path) -> None:
    write(tmp_path / "stages.csv", [samples.STAGE])
    point: Any = next(iter(read_points(tmp_path)))
    load = point.workload.load(0)
    rows = replay(load.trace, cluster_of(point.server, "roofline", {}), policy_of(point.server)).requests
    # Of 96 tokens in six blocks, all but the last block are taken from the cache: the last token is computed.
    assert rows["cached_tokens"].to_list()[6:] == [80] * 54


def test_kernels_that_ship_are_taken_for_their_model_gpu_and_engine() -> None:
    assert table_of(server(), {}).profile == "h100-sxm-llama-3.1-8b"
    for other in (
        {"gpu": "h200"}, {"tensor_parallel": 2}, {"model": replace(find_model("llama-3.1-8b"), name="mine")},
    ):  # fmt: skip
        with pytest.raises(Unserved, match="no kernels of vllm"):
            table_of(server(**other), {})


def test_the_kernels_are_those_of_the_next_version_that_was_measured() -> None:
    known = {("h100_sxm", "vllm"): ["0.18.0", "0.24.0", "0.25.0"]}
    taken = {
        version: table_of(server(version=version, tensor_parallel=2), known).profile.rpartition("/")[2]
        for version in ("0.12.0", "0.19.0", "0.25.0", "0.30.0", "")
    }
    assert taken == {
        "0.12.0": "0.18.0",
        "0.19.0": "0.24.0",
        "0.25.0": "0.25.0",
        "0.30.0": "0.25.0",
        "": "0.25.0",
    }
    # gpt-oss: 6 x 2880 x 2880 x 4 FLOP a token and layer at 244 TFLOP/s of each of two GPUs, and 0.2 us.
    oss = server(model=find_model("gpt-oss-120b"), tensor_parallel=2)
    slow = 6 * 2880 * 2880 * 4 / 2 / 244e12 + 0.2e-6
    assert table_of(oss, known).expert_token_s == pytest.approx(slow, rel=1e-12)
    assert table_of(server(), known).expert_token_s == 0.0
    with pytest.raises(Unserved, match="no kernels of sglang on h100-sxm are imported"):
        table_of(server(engine="sglang"), known)


def test_the_scheduler_is_that_of_the_engine_and_version() -> None:
    old, new, first = (policy_of(server(version=version)) for version in ("0.8.5", "0.19.0", "0.11.1"))
    assert (old.name, new.name, first.name) == ("vllm-0.11", "vllm", "vllm-0.11")
    scheduler: Any = old.scheduler
    assert (scheduler.max_num_seqs, scheduler.schedule_ahead) == (256, False)
    assert [each.scheduler.schedule_ahead for each in (new, first)] == [True, True]  # type: ignore[union-attr]
    sglang: Any = policy_of(server(engine="sglang", receive_interval=30)).scheduler
    assert (sglang.receive_interval, sglang.max_num_batched_tokens, sglang.schedule_ahead) == (30, 8192, True)
    trtllm: Any = policy_of(server(engine="trtllm", max_num_batched_tokens=20000)).scheduler
    assert (trtllm.max_num_batched_tokens, trtllm.max_num_seqs) == (20000, 2048)
    assert not any(getattr(stage, "chunked", False) for stage in trtllm.stages)
    assert policy_of(server(instances=2, prefill=1)).name == "disaggregated"


def test_replicas_are_picked_at_random(tmp_path: Path) -> None:
    two = server(instances=2)
    trace = Trace.from_columns(arrival=range(200), prompt_tokens=[8] * 200, output_tokens=[2] * 200)
    rows = replay(trace, cluster_of(two, "roofline", {}), policy_of(two)).requests
    share = float(rows["instance"].cast(float).mean())  # type: ignore[arg-type]
    # A fair coin thrown 200 times: 0.5 with a standard deviation of 0.035.
    assert 0.35 < share < 0.65


def test_host_time_is_that_of_the_version() -> None:
    cluster = cluster_of(server(version="0.19.0"), "roofline", {})
    assert (cluster.frontend_s, cluster.instances[0].cost) == (0.006, Roofline())
    assert cluster_of(server(version="0.14.0"), "roofline", {}).frontend_s == 0
    # A version that the data do not say counts as a new one.
    assert cluster_of(server(engine="trtllm", version=""), "roofline", {}).frontend_s == 0.030
    assert cluster_of(server(version="0.19.0"), "roofline", {}, hosts=False).frontend_s == 0
    later: Any = cluster_of(server(version="0.12.0"), "roofline", {}).instances[0].cost
    plain = Instance(model="llama-3.1-8b", gpu="h100-sxm").resolved_gpu
    assert plain is not None
    assert plain.efficiency is not None
    assert later.efficiency.step_s - plain.efficiency.step_s == pytest.approx(0.0011)


@pytest.mark.parametrize(
    ("gpu", "graphs", "expected"),
    # 61 layers of 1.2 ms: on B300 a whole first token takes less, and graphs are launched at once.
    [("b200", False, 61 * 0.0012), ("b200", True, 0.0), ("b300", False, 0.0)],
)
def test_prompts_wait_for_launches_where_the_host_machine_is_slow(
    gpu: str, graphs: bool, expected: float
) -> None:
    deepseek = Server(
        engine="sglang",
        version="0.5.9",
        model=Model.load("deepseek-r1"),
        gpu=gpu,
        tensor_parallel=8,
        prompt_graphs=graphs,
    )
    cluster = cluster_of(deepseek, "roofline", {})
    assert cluster.instances[0].prompt_step_s == pytest.approx(expected)
    assert cluster.frontend_s == 0.050


def test_a_cold_server_delays_the_first_requests_and_the_end_of_a_closed_loop(tmp_path: Path) -> None:
    write(tmp_path / "points.csv", [samples.AICONFIGURATOR])
    (point,) = (one for one in read_points(tmp_path) if isinstance(one, Point))
    measured = {"ttft": 1.0, "tpot": 1.0, "e2e": 1.0, "throughput": 1.0}
    warm, cold = (
        replace(point, measured=measured, server=replace(point.server, cold_s=cold_s))
        for cold_s in (0.0, 2.0)
    )
    found = [
        predict_point(one, cluster_of(one.server, "roofline", {}), policy_of(one.server))
        for one in (warm, cold)
    ]
    # 4 of 40 requests are sent at the start: each waits 2 s more, which is 0.2 s of the mean.
    assert found[1]["ttft"] - found[0]["ttft"] == pytest.approx(0.2)
    assert found[1]["e2e"] - found[0]["e2e"] == pytest.approx(0.2)
    assert found[1]["tpot"] == found[0]["tpot"]
    tokens = point.workload.load(0).trace.frame["output_tokens"].sum()
    assert tokens / found[1]["throughput"] - tokens / found[0]["throughput"] == pytest.approx(2.0)


def test_decodes_run_beside_prompts_where_the_server_mixes_them() -> None:
    steps = [policy_of(server(engine="sglang", mixed_chunk=mixed)).scheduler for mixed in (False, True)]
    assert [one.exclusive_prefill for one in steps] == [True, False]  # type: ignore[union-attr]

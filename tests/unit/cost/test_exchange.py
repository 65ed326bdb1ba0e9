"""Pipeline stages, and experts shared by data-parallel ranks: time, memory and bytes, counted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.cost import Affine, Efficiency, Roofline
from paceline.cost.traffic import traffic_wire
from paceline.deployment import kv_memory
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.kernels.collectives import Link
from paceline.kernels.table import Table
from paceline.model import Model
from unit.cost.reference import decode, prefill, step_ticks
from unit.kernels.making import make_folder

H100 = Gpu.load("h100-sxm")
LLAMA = Model.load("llama-3.1-8b")
QWEN = Model.load("qwen3-30b-a3b")
LINK_S = Efficiency(
    memory=1.0,
    matmul=1.0,
    attention_memory=1.0,
    attention_matmul=1.0,
    layer_s=0.0,
    step_s=0.0,
    ring_latency_s=20e-6,
)


def wire(model: Model, *, ranks: int = 1, stages: int = 1, **options: Any) -> dict[str, Any]:
    cost = Roofline(efficiency=LINK_S, **options)
    return cost.to_wire(model, H100, tensor_parallel=ranks, pipeline_parallel=stages)


def test_a_pipeline_takes_the_sum_of_its_stages_and_what_they_send() -> None:
    one, four = wire(LLAMA), wire(LLAMA, stages=4)
    for shape, tokens in ((decode(8, 500), 8), (prefill(2048), 2048)):
        # Three times: half of an all-reduce's latency, hidden state and residual of 4,096 numbers.
        sent = 3 * (10e-6 + tokens * 2 * 4096 * 2 / 450e9)
        assert (step_ticks(four, shape) - step_ticks(one, shape)) / 1e12 == pytest.approx(sent, rel=1e-5)


def test_ranks_of_a_stage_send_their_part_and_gather_the_whole() -> None:
    one, two = wire(LLAMA, ranks=2), wire(LLAMA, ranks=2, stages=2)
    sent = 2 * 10e-6 + 100 * 2 * 4096 * 2 * (1 / 2 + 1 / 2) / 450e9
    both = (step_ticks(two, prefill(100)) - step_ticks(one, prefill(100))) / 1e12
    assert both == pytest.approx(sent, rel=1e-5)


def test_stages_move_what_the_whole_model_does_and_their_activations() -> None:
    one, four = traffic_wire(LLAMA), traffic_wire(LLAMA, pipeline_parallel=4)
    assert four["decode"]["link"] == 3 * 2 * 4096 * 2
    assert {**four, "decode": 0, "prefill": 0} == {**one, "decode": 0, "prefill": 0}


def test_every_gpu_of_a_pipeline_idles_and_one_stage_works() -> None:
    assert H100.energy is not None
    power = H100.energy.to_wire(gpus=8, busy=2)
    assert power["idle_uw"] == 8 * 115_000_000
    wired = traffic_wire(LLAMA, tensor_parallel=2, pipeline_parallel=4, energy=H100.energy)["power"]
    assert wired == power


def test_all_stages_have_the_blocks_of_the_one_with_the_fewest() -> None:
    llama = Model.load("llama-3.1-70b")
    memory = kv_memory(llama, H100, pipeline_parallel=4)
    # 20 of 80 layers each; the last has the LM head and samples: 256 rows of 128,256 logits.
    assert memory.block_bytes == 16 * 20 * 2 * 8 * 128 * 2
    assert memory.activation_bytes == 2048 * 8192 * 2 + 256 * 128256 * 27
    layer = (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192) * 2
    assert memory.weight_bytes == 20 * layer + (128256 + 1) * 8192 * 2


def test_a_model_too_large_for_its_gpu_fits_on_stages() -> None:
    with pytest.raises(ConfigError, match=r"llama-3.1-70b does not fit on 1 x h100-sxm"):
        paceline.Instance(model="llama-3.1-70b", gpu="h100-sxm")
    instance = paceline.Instance(
        model="llama-3.1-70b", gpu="h100-sxm", pipeline_parallel=4, max_model_len=32768
    )
    assert paceline.Cluster.from_toml(paceline.Cluster([instance]).to_toml()).instances == (instance,)
    assert instance.to_wire()["blocks"] == instance.memory().blocks - 1


def test_ranks_that_share_experts_gather_tokens_and_scatter_sums() -> None:
    wired = wire(QWEN, data_parallel=4)
    gathered, scattered = wired["exchange"]
    # In each of 48 layers, to and from three others: hidden state and 128 router logits, and sums.
    assert gathered["fixed"] == scattered["fixed"] == 48 * 10_000_000
    assert gathered["token"] / 1e12 == pytest.approx(48 * 3 * (2048 + 128) * 2 / 450e9, rel=1e-4)
    assert scattered["token"] / 1e12 == pytest.approx(48 * 3 * 2048 * 2 / 450e9, rel=1e-4)
    link = traffic_wire(QWEN, data_parallel=4)["decode"]["link"]
    assert link == 48 * 3 * (2048 + 128 + 2048) * 2


@pytest.mark.parametrize("whole", [False, True])
def test_ranks_that_share_experts_read_the_union_of_what_all_their_tokens_need(whole: bool) -> None:
    one, two = wire(QWEN), wire(QWEN, data_parallel=2, expert_parallel=whole)
    read = dict(two["experts"]["weights"])
    alone = dict(one["experts"]["weights"])
    for tokens in (1, 8, 30):
        # Half of what a batch of twice the tokens needs; a little more where whole experts are uneven.
        half = alone[2 * tokens] / 2
        assert read[tokens] == pytest.approx(half, rel=1e-6) or (whole and half < read[tokens] < 1.4 * half)
    assert max(read.values()) == pytest.approx(max(alone.values()) / 2, rel=1e-6)
    assert two["experts"]["token_flops"] == one["experts"]["token_flops"]


def test_a_rank_counts_its_share_of_the_experts_that_all_load() -> None:
    one, four = traffic_wire(QWEN), traffic_wire(QWEN, data_parallel=4)
    assert four["experts"]["bytes"] == one["experts"]["bytes"]
    alone = dict(one["experts"]["loads"])
    for tokens, loads in four["experts"]["loads"][:20]:
        assert 4 * loads == pytest.approx(alone[4 * tokens], abs=3)
    # Once each for the four together.
    assert four["experts"]["loads"][-1][1] == 32 << 20


def test_ranks_that_share_experts_have_more_memory_for_kv() -> None:
    shared = paceline.Instance(
        model=QWEN, gpu=H100, cost=Roofline(data_parallel=2, expert_parallel=True), max_model_len="auto"
    )
    alone = paceline.Instance(model=QWEN, gpu=H100, max_model_len="auto")
    half = 48 * 64 * 3 * 2048 * 768 * 2
    assert alone.memory().weight_bytes - shared.memory().weight_bytes == half


def test_a_dense_model_has_nothing_to_share() -> None:
    with pytest.raises(ConfigError, match=r"data_parallel of a Roofline must be 1 for 'llama-3.1-8b', was 2"):
        wire(LLAMA, data_parallel=2)
    with pytest.raises(ConfigError, match="data_parallel of a Roofline must be a whole number"):
        Roofline(data_parallel=0)


def test_a_line_says_itself_what_a_pipeline_takes() -> None:
    flat = Affine(step_s=0.01)
    instances = [
        paceline.Instance(model=LLAMA, cost=flat, num_blocks=9000, pipeline_parallel=stages)
        for stages in (1, 2)
    ]
    assert instances[0].to_wire()["cost"] == instances[1].to_wire()["cost"]


def test_measured_kernels_need_a_link_between_stages(tmp_path: Path) -> None:
    profile = str(make_folder(tmp_path / "profile"))
    with pytest.raises(ConfigError, match="link of a Table must be given where there is more than one stage"):
        Table(profile=profile).to_wire(LLAMA, pipeline_parallel=2)
    table = Table(profile=profile, link=Link(bytes_per_s=25e9, latency_s=5e-6))
    one, three = (table.to_wire(LLAMA, pipeline_parallel=stages)["tokens"] for stages in (1, 3))
    for n, before, after in zip(one["at"], one["ticks"], three["ticks"], strict=True):
        assert (after - before) / 1e12 == pytest.approx(2 * (5e-6 + n * 2 * 4096 * 2 / 25e9), rel=1e-6)

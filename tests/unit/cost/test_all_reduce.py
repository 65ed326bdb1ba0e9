"""All-reduces: the least of one-shot, two-shot, ring and tree, and how far it is from measured curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.cost import Efficiency, Roofline
from paceline.cost.all_reduce import all_reduce_ways, gather_latency_s
from paceline.errors import ConfigError
from paceline.hardware import Gpu, gpu_names
from paceline.kernels.collectives import Link, read_all_reduce
from paceline.model import Model
from unit.cost.reference import all_reduce_seconds

H100 = Gpu.load("h100-sxm")
SIZES = [2**i for i in range(10, 31)]


def ways(gpu: Gpu, ranks: int, **options: Any) -> Any:
    assert gpu.efficiency is not None
    return all_reduce_ways(
        gpu.efficiency, ranks=ranks, link=gpu.link, link_bytes_per_s=gpu.link_bytes_per_s, **options
    )


def seconds(of: Any, size: float) -> float:
    return min(way.latency_s + size * way.s_per_byte for way in of)


@pytest.mark.parametrize("gpu", gpu_names())
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_least_of_all_ways_is_the_same_as_by_a_second_reading(gpu: str, ranks: int) -> None:
    of = Gpu.load(gpu)
    assert of.efficiency is not None
    given = {name: getattr(of.efficiency, name) for name in ("ring", "one_shot", "one_shot_latency_s")}
    for size in SIZES:
        expected = all_reduce_seconds(
            size, ranks, nvlink=of.link != "pcie", link=of.link_bytes_per_s, given=given
        )
        assert seconds(ways(of, ranks), size) == pytest.approx(expected, rel=1e-12), size


@pytest.mark.parametrize("gpu", ["h100-sxm", "rtx-4090"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("tokens", [1, 7, 64, 500, 8192, 100_000])
def test_a_step_has_the_least_of_its_ways_for_its_tokens(gpu: str, ranks: int, tokens: int) -> None:
    of, model = Gpu.load(gpu), Model.load("llama-3.1-70b")
    assert of.efficiency is not None
    given = {name: getattr(of.efficiency, name) for name in ("ring", "one_shot", "one_shot_latency_s")}
    lines = Roofline().to_wire(model, of, tensor_parallel=ranks)["all_reduce"]
    ticks = min(line["fixed"] + tokens * line["token"] for line in lines)
    each = all_reduce_seconds(
        tokens * 8192 * 2, ranks, nvlink=of.link != "pcie", link=of.link_bytes_per_s, given=given
    )
    assert ticks / 1e12 == pytest.approx((2 * 80 + 1) * each, rel=1e-6)


def test_one_rank_reduces_nothing() -> None:
    assert ways(H100, 1) == ()


@pytest.mark.parametrize("gpu", gpu_names())
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_every_way_that_is_kept_is_the_least_somewhere(gpu: str, ranks: int) -> None:
    """So that a step looks at no more lines than it must; and a larger message never takes less."""
    kept = ways(Gpu.load(gpu), ranks)
    latencies = sorted(way.latency_s for way in kept)
    slopes = sorted((way.s_per_byte for way in kept), reverse=True)
    assert [(way.latency_s, way.s_per_byte) for way in sorted(kept, key=lambda way: way.latency_s)] == list(
        zip(latencies, slopes, strict=True)
    )
    times = [seconds(kept, size) for size in SIZES]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("ranks", "size", "name"),
    [(2, 2**22, "one-shot"), (4, 2**17, "one-shot"), (4, 2**20, "two-shot"), (8, 2**17, "one-shot")],
)
def test_small_messages_are_reduced_as_vllm_chooses(ranks: int, size: int, name: str) -> None:
    """Its kernel takes one stage for two ranks, below 512 KiB for 4 and 256 KiB for 8, and two above."""
    chosen = min(ways(H100, ranks), key=lambda way: way.latency_s + size * way.s_per_byte)
    assert chosen.name == name


def test_more_than_two_gpus_without_nvlink_are_left_to_nccl() -> None:
    names = {way.name for way in ways(Gpu.load("rtx-4090"), 4)}
    assert not names & {"one-shot", "two-shot"}
    assert {way.name for way in ways(Gpu.load("rtx-4090"), 2)} & {"one-shot"}


def test_an_engine_that_was_measured_has_one_ring() -> None:
    given = Efficiency(
        memory=1, matmul=1, attention_memory=1, attention_matmul=1, layer_s=0, step_s=0,
        ring=0.5, ring_latency_s=40e-6,
    )  # fmt: skip
    (way,) = all_reduce_ways(given, ranks=4, link="nvlink", link_bytes_per_s=400e9, kernel=False)
    assert way == ("ring", 40e-6, 1.5 / 200e9)
    assert gather_latency_s(given, ranks=4, link="nvlink") == 20e-6


def test_a_gather_has_half_of_the_hops_of_a_ring() -> None:
    assert H100.efficiency is not None
    assert gather_latency_s(H100.efficiency, ranks=8, link="nvlink") == pytest.approx(6.6e-6 + 7 * 0.6e-6)
    assert gather_latency_s(H100.efficiency, ranks=1, link="pcie") == pytest.approx(6.6e-6 + 1.0e-6)


def test_two_ranks_exchange_in_one_hop() -> None:
    link = Link(bytes_per_s=50e9, latency_s=10e-6)
    assert link.seconds("all_reduce", 1e6, ranks=2) == pytest.approx(10e-6 + 20e-6)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_a_link_takes_the_least_of_one_shot_ring_and_tree(ranks: int, direct: bool) -> None:
    link = Link(bytes_per_s=50e9, latency_s=10e-6, direct=direct)
    depth = {2: 1, 3: 2, 4: 2, 8: 3}[ranks]
    for size in SIZES:
        ring = 2 * (ranks - 1) * (10e-6 + size / ranks / 50e9)
        tree = 2 * depth * 10e-6 + 2 * size / 50e9
        once = 10e-6 + (ranks - 1) * size / 50e9 if direct or ranks == 2 else np.inf
        assert link.seconds("all_reduce", size, ranks=ranks) == pytest.approx(min(ring, tree, once))
        part = link.seconds("all_gather", size, ranks=ranks)
        assert part == pytest.approx((ranks - 1) * (10e-6 + size / ranks / 50e9))


def test_a_link_is_direct_or_not() -> None:
    with pytest.raises(ConfigError, match="direct of a Link must be True or False, was 'yes'"):
        Link(bytes_per_s=1e9, direct="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(("ranks", "within"), [(2, 0.25), (4, 0.25), (8, 0.30)])
def test_large_messages_by_nccl_take_what_was_measured_on_a_dgx_h100(
    shared: Path, ranks: int, within: float
) -> None:
    """Vidur's curve, whose 4 GPUs gave the ring's bandwidth. Smaller messages wait for their launch."""
    curve = read_all_reduce(shared / "measured/vidur/h100_dgx.all_reduce.csv.zst", ranks=ranks)
    nccl = ways(H100, ranks, kernel=False)
    off = [seconds(nccl, size) / curve(size) - 1 for size in (2**23, 2**24, 2**25, 2**26)]
    assert max(map(abs, off)) < within, off

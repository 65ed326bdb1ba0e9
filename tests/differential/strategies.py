"""Random small workloads and clusters: few blocks, short steps, many events at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from hypothesis import strategies as st

from paceline.testing.reference import AffineCost, LayeredConfig, Request, VllmV0Config, VllmV1Config
from paceline.testing.reference.routing import Routing

Config = VllmV1Config | VllmV0Config | LayeredConfig
Kind = Literal["vllm", "vllm-cached", "vllm-v0", "layered"]
Mode = Literal["chunked-prefill", "orca", "layered-prefill"]
KINDS: tuple[Kind, ...] = ("vllm", "vllm-cached", "vllm-v0", "layered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A workload and the cluster that serves it; times in ticks."""

    requests: list[Request]
    instances: list[tuple[Config, AffineCost]]
    routing: Routing = "round_robin"
    until: int | None = None


# Most gaps are shorter than a step, so that requests queue. A gap of zero makes arrivals coincide.
GAPS = st.one_of(st.just(0), st.integers(0, 12), st.integers(0, 40), st.integers(0, 300))
PROMPTS = st.integers(1, 25)
OUTPUTS = st.integers(1, 40)
LONGEST = 25 + 40
# Tokens of one or two of the longest sequences; now and then of less than one, or of all.
CAPACITY = st.one_of(
    st.integers(LONGEST, 80), st.integers(LONGEST, 130), st.integers(30, LONGEST), st.just(600)
)
BUDGETS = st.sampled_from([1, 2, 3, 8, 17, 32, 64, 64])
SEQUENCES = st.sampled_from([1, 2, 4, 16, 16])
# Full blocks that prompts begin with. The ids are few, so that prompts share some and then differ.
FAMILIES = st.lists(st.lists(st.integers(0, 2), max_size=12), min_size=1, max_size=3)


@st.composite
def workloads(draw: st.DrawFn, least: int, most: int, block_size: int | None, apart: bool) -> list[Request]:
    """Draw requests, sorted by arrival; ``apart`` keeps any two from arriving at the same time."""
    families = draw(FAMILIES) if block_size else [[]]
    shape = st.tuples(
        GAPS, PROMPTS, OUTPUTS, st.integers(0, 2), st.sampled_from(families), st.integers(0, 12)
    )
    shapes = draw(st.lists(shape, min_size=least, max_size=most))
    arrivals = accumulate(gap + apart for gap, *_ in shapes)
    return [
        Request(at, prompt, output, priority, tuple(ids[: min(length, prompt // (block_size or 1))]))
        for at, (_, prompt, output, priority, ids, length) in zip(arrivals, shapes, strict=True)
    ]


@st.composite
def vllm_v1(draw: st.DrawFn, block_size: int, cached: bool) -> VllmV1Config:
    num_blocks = 1 + max(1, draw(CAPACITY) // block_size)
    watermark_blocks = min(draw(st.sampled_from([0, 0, 1, 3])), num_blocks - 1)
    return VllmV1Config(
        block_size=block_size,
        num_blocks=num_blocks,
        max_num_batched_tokens=draw(BUDGETS),
        max_num_seqs=draw(SEQUENCES),
        max_model_len=draw(st.sampled_from([None, None, 60])),
        prefix_caching=cached,
        policy=draw(st.sampled_from(["fcfs", "fcfs", "priority"])),
        reserve_full_prompt=draw(st.booleans()),
        watermark=(watermark_blocks + 0.5) / num_blocks,
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 1, 3, 10])),
    )


@st.composite
def vllm_v0(draw: st.DrawFn, block_size: int) -> VllmV0Config:
    chunked = draw(st.booleans())
    return VllmV0Config(
        block_size=block_size,
        num_blocks=2 + draw(CAPACITY) // block_size,
        num_cpu_blocks=1000,
        # vLLM refuses a budget that cannot hold the longest sequence, unless prompts are cut.
        max_num_batched_tokens=draw(BUDGETS) if chunked else 70 + draw(st.integers(0, 40)),
        max_num_seqs=draw(SEQUENCES),
        max_model_len=draw(st.sampled_from([60, 70])),
        chunked_prefill=chunked,
        preemption=draw(st.sampled_from(["recompute", "swap"])),
    )


@st.composite
def layered(draw: st.DrawFn, block_size: int) -> LayeredConfig:
    modes: list[Mode] = ["chunked-prefill", "orca", "layered-prefill"]
    mode = draw(st.sampled_from(modes))
    return LayeredConfig(
        block_size=max(2, block_size),
        num_blocks=max(1, draw(CAPACITY) // block_size),
        # With a budget above its longest sequence, Orca's mode serves every request in the end.
        max_num_batched_tokens=70 if mode == "orca" else draw(BUDGETS),
        max_num_seqs=draw(SEQUENCES),
        max_model_len=70,
        num_layers=draw(st.sampled_from([24, 25, 48])),
        mode=mode,
        num_stages=draw(st.sampled_from([4, 12, 16, 24])),
    )


CONFIGS: dict[Kind, Callable[[int], st.SearchStrategy[Config]]] = {
    "vllm": lambda block_size: vllm_v1(block_size, cached=False),
    "vllm-cached": lambda block_size: vllm_v1(block_size, cached=True),
    "vllm-v0": vllm_v0,
    "layered": layered,
}


@st.composite
def cases(draw: st.DrawFn, kind: Kind = "vllm") -> Case:
    """Draw a workload and a cluster: one instance, some that are alike, or some that are not."""
    block_size = draw(st.sampled_from([1, 2, 3, 4, 16]))
    alike = draw(st.booleans())
    costs = st.builds(
        AffineCost,
        step=st.integers(1, 20),
        token=st.integers(0, 3),
        kv_token=st.sampled_from([0, 0, 1, 2]) if kind != "layered" else st.just(0),
        swap_block=st.integers(0, 4) if kind == "vllm-v0" else st.just(0),
    )
    instances = st.tuples(CONFIGS[kind](block_size), costs)
    count = draw(st.sampled_from([1, 1, 2, 4]))
    first = draw(instances)
    fleet = [first if alike or index == 0 else draw(instances) for index in range(count)]
    # Two requests of equal rank can preempt each other forever, in vLLM as in the reference.
    ranked = any(isinstance(config, VllmV1Config) and config.policy == "priority" for config, _ in fleet)
    return Case(
        requests=draw(
            workloads(
                least=draw(st.sampled_from([1, 6 * count])),
                most=8 * count,
                block_size=block_size if kind == "vllm-cached" else None,
                apart=ranked,
            )
        ),
        instances=fleet,
        routing=draw(st.sampled_from(["round_robin", "fewest_requests", "fewest_tokens"])),
    )

"""The sizes of CUDA graphs by vLLM's rule, and steps that are padded to them, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

import paceline
from paceline import (
    AcceptanceLength,
    Affine,
    Cluster,
    ConfigError,
    CudaGraphs,
    Draft,
    Gpu,
    Instance,
    Roofline,
    Speculation,
    Trace,
    policies,
)

TWO_DRAFTS = Speculation(tokens=2, acceptance=AcceptanceLength(3.0), method="ngram")


def captured(budget: int, seqs: int, **fields: Any) -> tuple[int, ...]:
    return CudaGraphs().captured(max_num_batched_tokens=budget, max_num_seqs=seqs, **fields)


def test_the_default_sizes_are_those_that_vllm_documents() -> None:
    # _set_cudagraph_sizes of vLLM 0.33.0: 1, 2, 4, then every 8th up to 256 and every 16th up to 512.
    large = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
    assert captured(8192, 256) == large
    assert captured(8192, 1024) == large
    assert captured(8192, 1024, gpu=Gpu.load("h200")) == large
    assert captured(16384, 1024, gpu=Gpu.load("b200")) == (*large, *range(528, 1025, 16))


@pytest.mark.parametrize(
    ("budget", "seqs", "sizes"),
    [
        (8192, 1, (1, 2)),
        (8192, 3, (1, 2, 3, 4)),  # up to 6, and the batch of 3
        (8192, 10, (1, 2, 4, 8, 10, 16)),  # up to 20
        (13, 10, (1, 2, 4, 8, 10, 13)),  # the budget is below 20, and a size itself
        (8, 10, (1, 2, 4, 8)),
    ],
)
def test_the_limits_of_the_scheduler_bound_the_sizes_and_are_sizes(
    budget: int, seqs: int, sizes: tuple[int, ...]
) -> None:
    assert captured(budget, seqs) == sizes


def test_with_drafts_whole_numbers_of_requests_are_sizes() -> None:
    # Three tokens a decode: up to 2 * 5 * 3 = 30, and 1, 2, 4 and 5 requests.
    assert captured(8192, 5, speculation=TWO_DRAFTS) == (1, 2, 3, 4, 6, 8, 12, 15, 16, 24)
    wire = CudaGraphs().to_wire(max_num_batched_tokens=8192, max_num_seqs=5, speculation=TWO_DRAFTS)
    # Graphs of decodes are rounded up to multiples of 3, up to five requests.
    assert wire["uniform"] == [{"drafts": 2, "sizes": [3, 6, 9, 12, 15]}]


def test_drafts_by_the_batch_have_graphs_for_each_number() -> None:
    by_batch = Speculation(
        tokens=2, acceptance=AcceptanceLength(2.0), method="ngram", tokens_by_batch=((1, 2), (3, 1), (9, 0))
    )
    # 3 tokens up to 2 requests, 2 tokens up to 4, of at most 4 requests; the third range is not reached.
    assert captured(8192, 4, speculation=by_batch) == (1, 2, 3, 4, 6, 8, 16, 24)
    wire = CudaGraphs().to_wire(max_num_batched_tokens=8192, max_num_seqs=4, speculation=by_batch)
    assert wire["uniform"] == [{"drafts": 1, "sizes": [2, 4, 6, 8]}, {"drafts": 2, "sizes": [3, 6, 9]}]


@pytest.mark.parametrize("sizes", [(), (0, 4), (4, 4), (8, 4)])
def test_sizes_that_do_not_rise_from_1_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="sizes of CudaGraphs must"):
        CudaGraphs(sizes=sizes)


def test_something_else_than_graphs_is_refused() -> None:
    with pytest.raises(ConfigError, match="cuda_graphs of an Instance must be CudaGraphs, was 'full'"):
        Instance(cost=Affine(step_s=1.0), num_blocks=100, cuda_graphs="full")  # type: ignore[arg-type]


@pytest.mark.parametrize("graphs", [CudaGraphs(), CudaGraphs(sizes=(4, 32), eager_step_s=0.04)])
def test_graphs_survive_toml(graphs: CudaGraphs) -> None:
    instance = Instance(cost=Affine(step_s=1.0), num_blocks=100, cuda_graphs=graphs)
    assert Instance.from_toml(instance.to_toml()) == instance


def finishes(instance: Instance, prompts: list[int], output: int) -> list[float]:
    trace = Trace.from_columns(
        arrival=[0.0] * len(prompts), prompt_tokens=prompts, output_tokens=[output] * len(prompts)
    )
    result = paceline.replay(trace, Cluster([instance]), policies.vllm(max_num_batched_tokens=100))
    found: list[float] = result.requests["e2e"].to_list()
    return found


def test_mixed_steps_and_decodes_are_padded_and_steps_past_the_largest_are_not() -> None:
    instance = Instance(
        cost=Affine(step_s=1.0, token_s=0.01), num_blocks=1000, cuda_graphs=CudaGraphs(sizes=(4, 16))
    )
    # 9 prompt tokens run as 16; then three steps of 3 decodes run as 4 each.
    assert finishes(instance, [3, 3, 3], 4) == pytest.approx([1.16 + 3 * 1.04] * 3)
    # 100 of 101 tokens are past the largest graph. The last one runs with the first request's decode, as 4.
    assert finishes(instance, [60, 41], 2) == pytest.approx([2.0 + 1.04, 2.0 + 2 * 1.04])


def test_a_step_past_the_largest_graph_does_not_end_before_its_launches() -> None:
    cost = Affine(step_s=1.0, token_s=0.01)
    instance = Instance(cost=cost, num_blocks=1000, cuda_graphs=CudaGraphs(sizes=(4, 16), eager_step_s=1.5))
    # By the line 17 prompt tokens take 1.17 s, 16 take 1.16 in a graph, and 60 take 1.6, above the launches.
    assert finishes(instance, [17], 2) == pytest.approx([1.5 + 1.04])
    assert finishes(instance, [16], 2) == pytest.approx([1.16 + 1.04])
    assert finishes(instance, [60], 2) == pytest.approx([1.6 + 1.04])
    # 17 decodes are past it, too, over all their steps.
    assert finishes(instance, [2] * 17, 30) == pytest.approx([1.5 + 29 * 1.5] * 17)


def test_launches_of_verifying_do_not_count_for_each_pass_of_the_drafter() -> None:
    drafted = Speculation(tokens=2, acceptance=AcceptanceLength(1.0), draft=Draft(cost=Affine(step_s=0.25)))
    instance = Instance(
        cost=Affine(step_s=1.0),
        num_blocks=1000,
        speculation=drafted,
        cuda_graphs=CudaGraphs(sizes=(2,), eager_step_s=1.5),
    )
    # A prompt of 5 and a decode with two drafts are past the graph of 2 tokens; two passes follow each.
    assert finishes(instance, [5], 2) == pytest.approx([2 * (1.5 + 2 * 0.25)])


def test_launches_cannot_take_less_than_no_time() -> None:
    with pytest.raises(ConfigError, match="eager_step_s of CudaGraphs must"):
        CudaGraphs(eager_step_s=-1.0)


def test_decodes_with_all_their_drafts_run_in_their_own_graphs() -> None:
    instance = Instance(
        cost=Affine(step_s=1.0, token_s=0.01),
        num_blocks=1000,
        speculation=TWO_DRAFTS,
        cuda_graphs=CudaGraphs(sizes=(8, 16)),
    )
    # A prompt of 5 runs as 8. The graphs of decodes hold 9 and 18 tokens, of which the second is past the
    # largest graph. So two steps of 3 tokens, all accepted, run as 9.
    assert finishes(instance, [5], 7) == pytest.approx([1.08 + 2 * 1.09])


def test_the_work_of_padding_is_in_no_counter() -> None:
    plain = Instance(model="llama-3.1-8b", gpu="h100-sxm", cost=Roofline())
    padded = Instance(model="llama-3.1-8b", gpu="h100-sxm", cost=Roofline(), cuda_graphs=CudaGraphs())
    trace = Trace.from_columns(arrival=[0.0] * 3, prompt_tokens=[70] * 3, output_tokens=[9] * 3)
    one, other = (paceline.replay(trace, Cluster([each]), policies.vllm()) for each in (plain, padded))
    assert one.instances["flops"].to_list() == other.instances["flops"].to_list()
    assert one.requests["e2e"][0] < other.requests["e2e"][0]


def test_experts_are_priced_without_padding() -> None:
    # One token runs as 64. Its experts are read for one token: 8 of 128; 64 tokens would read nearly all.
    def ticks(**fields: Any) -> float:
        instance = Instance(model="qwen3-30b-a3b", gpu="h100-sxm", **fields)
        return finishes(instance, [1], 101)[0] / 101

    alone, padded = ticks(), ticks(cuda_graphs=CudaGraphs(sizes=(64,)))
    assert alone < padded < 1.2 * alone

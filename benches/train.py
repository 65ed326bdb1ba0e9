"""The replays that a profile-guided build is trained on: every kind of replay, common ones most often.

``maturin build --pgo`` runs it with an instrumented module (`pgo-command` in pyproject.toml); by itself it
replays and prints nothing.
"""

from __future__ import annotations

import dataclasses

import polars as pl
from workloads import WORKLOAD, reasoning

import paceline
from paceline import policies
from paceline.policy import Host, PrefixCache
from paceline.speculation import AcceptanceLength, Draft, Speculation


def with_prefixes(trace: paceline.Trace, groups: int = 60, tokens: int = 64) -> paceline.Trace:
    """Have the prompts of each group begin with the same blocks, up to half of the prompt."""

    def ids(row: int, prompt: int) -> list[int]:
        blocks = prompt // tokens
        shared = [(row % groups) << 32 | at for at in range(blocks // 2)]
        return shared + [(groups + row) << 32 | at for at in range(blocks - len(shared))]

    prompts = trace.frame["prompt_tokens"].to_list()
    prefix = pl.Series([ids(row, prompt) for row, prompt in enumerate(prompts)], dtype=pl.List(pl.UInt64))
    return paceline.Trace(trace.frame.with_columns(prefix=prefix), prefix_block_tokens=tokens)


def main() -> None:
    """Replay a few traces of each kind."""
    instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")
    eight = paceline.Cluster(8 * [instance])

    def synthesized(requests: int, rate: float) -> paceline.Trace:
        return paceline.synthesize(WORKLOAD, requests=requests, rate=rate, seed=11)

    # Most replays spend their time here: requests that rarely queue, and reasoning under memory pressure.
    for rate in (60.0, 170.0):
        paceline.replay(synthesized(100_000, rate), eight, policies.vllm())
    trace, cluster = reasoning(60_000, 11.0)
    paceline.replay(trace, cluster, policies.pascal())

    paceline.replay(synthesized(10_000, 1_800.0), eight, policies.vllm())
    paceline.replay(synthesized(2_000, 60.0), eight, policies.vllm(), leap=False)
    for policy in (
        policies.vllm(prefix_caching=True),
        policies.vllm(prefix_caching=PrefixCache(tiers=[Host(gib=64)])),
        policies.disaggregated(prefill=4, decode=4),
        policies.layered_prefill(layers=32),
        policies.vllm_v0(),
        policies.sglang(),
        policies.sglang(overlap_schedule=True),
        policies.tensorrt_llm(),
        policies.sarathi(),
        policies.orca(),
        policies.llumnix(),
    ):
        paceline.replay(synthesized(5_000, 60.0), eight, policy)
    for policy in (
        policies.vllm(prefix_caching=True),
        policies.vllm(prefix_caching=PrefixCache(tiers=[Host(gib=64)])),
        policies.sglang(prefix_caching=True),
        policies.dynamo(),
    ):
        paceline.replay(with_prefixes(synthesized(10_000, 170.0)), eight, policy)
    speculation = Speculation(tokens=3, acceptance=AcceptanceLength(2.5), draft=Draft())
    drafting = dataclasses.replace(instance, speculation=speculation)
    paceline.replay(synthesized(5_000, 60.0), paceline.Cluster(8 * [drafting]))
    trace, cluster = reasoning(5_000, 10.0)
    for policy in (
        policies.pascal(migration="never"),
        policies.round_robin_quanta(),
        policies.fcfs(),
        policies.fastserve(),
        policies.las(),
        policies.srpt(),
    ):
        paceline.replay(trace, cluster, policy)


if __name__ == "__main__":
    main()

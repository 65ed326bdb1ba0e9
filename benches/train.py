"""The replays that a profile-guided build is trained on: every kind of replay, common ones most often.

``maturin build --pgo`` runs it with an instrumented module (`pgo-command` in pyproject.toml); by itself it
replays and prints nothing.
"""

from __future__ import annotations

import dataclasses

from end_to_end import WORKLOAD, reasoning

import paceline
from paceline import policies
from paceline.policy import Host, PrefixCache
from paceline.speculation import AcceptanceLength, Draft, Speculation


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

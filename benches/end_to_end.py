"""Measure time and memory of whole replays: every figure that the README and the issues quote.

``make bench`` runs it. Each case runs in a process of its own, so that its peak memory is its own; the time
is that of `paceline.replay` alone: the shortest of several replays, with the median and the longest, which
show how busy the machine was. Short cases are replayed a hundred times, so that one replay runs undisturbed.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import polars as pl
from workloads import TRACES, WORKLOAD, reasoning

import paceline
from paceline.policy import Host, PrefixCache
from paceline.rank import noisy_scores
from paceline.synthesis import Bursts

# name: (requests, rate per second, instances, leap, what the issue asks)
CASES: dict[str, tuple[int, float, int, bool, str]] = {
    "8 instances, below saturation": (1_000_000, 60.0, 8, True, "at most 1.0 s, 600 MB"),
    "8 instances, near saturation": (1_000_000, 170.0, 8, True, "at most 1.0 s, 600 MB"),
    "8 instances, ten times too much": (1_000_000, 1_800.0, 8, True, "at most twice the plain cost"),
    "8 instances, all at once": (1_000_000, math.inf, 8, True, "at most twice the plain cost"),
    "1 instance": (1_000_000, 7.5, 1, True, "at most twice the plain cost"),
    "64 instances": (1_000_000, 480.0, 64, True, "at most twice the plain cost"),
    "8 instances, 10,000 requests": (10_000, 60.0, 8, True, "flat cost a request"),
    "8 instances, 100,000 requests": (100_000, 60.0, 8, True, "flat cost a request"),
    "8 instances, 10,000,000 requests": (10_000_000, 60.0, 8, True, "at most twelve times a million"),
    "8 instances, without leaping": (1_000_000, 60.0, 8, False, "reported"),
    "8 instances, near saturation, without leaping": (1_000_000, 170.0, 8, False, "reported"),
}
AZURE = {"azure conversation, 1 instance": 1, "azure conversation, 8 instances": 8}
PASCAL = "PASCAL, 8 instances, a million requests under memory pressure"
# name: (requests, how often they are replayed)
REASONING = {PASCAL: (1_000_000, 9), "PASCAL, 20,000 such requests, the best of a hundred": (20_000, 100)}
# Policies whose ranks change as a request runs, on 20,000 such requests.
RANKED: dict[str, Callable[[], paceline.Policy]] = {
    "Andes, 20,000 such requests": paceline.policies.andes,
    "FastServe, 20,000 such requests": paceline.policies.fastserve,
    "least attained service, 20,000 such requests": paceline.policies.las,
    "shortest remaining first, 20,000 such requests": paceline.policies.srpt,
}
ARROW = {"Arrow, 16 instances": 200.0, "Arrow, 16 instances, near saturation": 280.0}
"""Requests per second of the issue's workload, a million requests; asked: at most 3 s."""
# Both on the same trace of bursts at ten times the rate that can be served.
BURSTS: dict[str, Callable[[], paceline.Policy]] = {
    "bursts of 2,000, ten times too much, FCFS": paceline.policies.vllm,
    "bursts of 2,000, ten times too much, PARS": paceline.policies.pars,
}
"""Asked: PARS takes at most 1.5 times as long as FCFS."""
PREFIX = "mooncake conversation, prefix caching, 4 saturated instances"
PREFIXES: dict[str, Callable[[], paceline.Policy]] = {
    PREFIX: lambda: paceline.policies.vllm(prefix_caching=True),
    f"{PREFIX}, SGLang's radix tree": lambda: paceline.policies.sglang(prefix_caching=True),
    f"{PREFIX}, a tier of 64 GiB": lambda: paceline.policies.vllm(
        prefix_caching=PrefixCache(tiers=[Host(gib=64)])
    ),
    "mooncake conversation, 4 saturated instances, Dynamo's router": paceline.policies.dynamo,
    "mooncake conversation, 4 saturated instances, llm-d's router": paceline.policies.llm_d,
}


def synthesized(name: str) -> dict[str, Any]:
    """Time one case of the issue's workload."""
    requests, rate, instances, leap, _ = CASES[name]
    trace = paceline.synthesize(WORKLOAD, requests=requests, rate=rate, seed=11)
    return timed(trace, instances, paceline.policies.vllm(), leap=leap, repeats=1 if requests > 10**6 else 5)


def azure(name: str) -> dict[str, Any]:
    """Time reading and replaying the Azure conversation trace."""
    started = time.perf_counter()
    trace = paceline.read_trace(TRACES / "azure2023_conv.csv.zst")
    read_s = time.perf_counter() - started
    return {**timed(trace, AZURE[name], paceline.policies.vllm()), "read_s": read_s}


def mooncake(name: str) -> dict[str, Any]:
    """Time the Mooncake conversation trace, whose prompts share blocks, at twenty times its rate."""
    trace = paceline.read_trace(TRACES / "mooncake_conversation.jsonl.zst").at_rate(scale=20)
    return timed(trace, 4, PREFIXES[name]())


def pascal(name: str) -> dict[str, Any]:
    """Time PASCAL on reasoning models: eight instances under memory pressure, with all columns recorded."""
    requests, repeats = REASONING[name]
    trace, cluster = reasoning(requests, 11.0)
    return measured(trace, cluster, paceline.policies.pascal(), repeats=repeats)


def ranked(name: str) -> dict[str, Any]:
    """Time another policy on reasoning models."""
    trace, cluster = reasoning(20_000, 11.0)
    return measured(trace, cluster, RANKED[name]())


def burst(name: str) -> dict[str, Any]:
    """Time PARS or FCFS on a million requests of the issue's workload, in bursts as large as PARS's."""
    trace = paceline.synthesize(
        WORKLOAD, requests=1_000_000, rate=1_800.0, arrivals=Bursts(size=2_000), seed=11
    )
    # The tau-b of a good predictor; FCFS does not read scores.
    scores = noisy_scores(trace.frame["output_tokens"].to_numpy(), tau=0.65, seed=11)
    scored = paceline.Trace(trace.frame.with_columns(score=pl.Series(scores)), name=trace.name)
    return timed(scored, 8, BURSTS[name]())


def arrow(name: str) -> dict[str, Any]:
    """Time Arrow on the issue's workload: sixteen H800, of which eight prefill at the start."""
    trace = paceline.synthesize(WORKLOAD, requests=1_000_000, rate=ARROW[name], seed=11)
    instance = paceline.Instance(model="llama-3.1-8b", gpu="h800")
    cluster = paceline.Cluster(16 * [instance], links=paceline.Links(port="nvlink-h800"))
    return measured(trace, cluster, paceline.policies.arrow(prefill=8, decode=8), repeats=3)


def timed(
    trace: paceline.Trace, instances: int, policy: paceline.Policy, *, leap: bool = True, repeats: int = 5
) -> dict[str, Any]:
    """Replay a trace; return the time and the counts of the replay."""
    instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")
    return measured(trace, paceline.Cluster(instances * [instance]), policy, leap=leap, repeats=repeats)


def measured(
    trace: paceline.Trace,
    cluster: paceline.Cluster,
    policy: paceline.Policy,
    *,
    leap: bool = True,
    repeats: int = 5,
) -> dict[str, Any]:
    """Time several replays; return the shortest, the median and the longest time with the counts."""
    took = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = paceline.replay(trace, cluster, policy, leap=leap)
        took.append(time.perf_counter() - started)
    best = min(took)
    return {
        "requests": len(trace),
        "replay_s": best,
        "took_s": took,
        "median_s": statistics.median(took),
        "worst_s": max(took),
        "us_per_request": best / len(trace) * 1e6,
        "requests_per_s": len(trace) / best,
        "steps": result.stats.steps,
        "events": result.stats.events,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }


def main() -> None:
    """Run all cases or the named one; print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", help="run one case in this process and print it as JSON")
    parser.add_argument("--json", action="store_true", help="print all cases as JSON")
    chosen = parser.parse_args()
    cases = dict.fromkeys(CASES, synthesized) | dict.fromkeys(REASONING, pascal)
    cases |= dict.fromkeys(RANKED, ranked) | dict.fromkeys(ARROW, arrow) | dict.fromkeys(BURSTS, burst)
    if TRACES.is_dir():
        cases |= dict.fromkeys(AZURE, azure) | dict.fromkeys(PREFIXES, mooncake)
    if chosen.case:
        print(json.dumps(cases[chosen.case](chosen.case)))
        return
    results = {}
    if not chosen.json:
        print(f"{platform.machine()}, Python {platform.python_version()}, Paceline {paceline.__version__}")
        print(f"{'':52} {'best':>9} {'median':>9} {'worst':>9} {'a request':>10} {'steps':>12} {'peak':>8}")
    for name in cases:
        command = [sys.executable, __file__, "--case", name]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
        row = results[name] = json.loads(answer.stdout)
        if not chosen.json:
            read = f"  read in {row['read_s']:.3f} s" if "read_s" in row else ""
            print(
                f"{name:52} {row['replay_s']:7.3f} s {row['median_s']:7.3f} s {row['worst_s']:7.3f} s "
                f"{row['us_per_request']:7.2f} us {row['steps']:12,} {row['peak_mb']:5.0f} MB{read}",
                flush=True,
            )
    if chosen.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

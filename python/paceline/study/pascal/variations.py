"""What the headline numbers hang on: the same comparison with one thing changed at a time.

The paper gives no arrival rates, no number of requests, no lengths but as pictures, and no time for copying
KV to the host. Each is varied here on AlpacaEval2.0 at the high load, and so are readings of what
the paper says of its policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import polars as pl

from paceline.study.model import Page, Table
from paceline.study.pascal.ablations import end_to_end
from paceline.study.pascal.demand import stretched
from paceline.study.pascal.hardware import pascals_instance
from paceline.study.pascal.requests import medians, p99, throughput, violations
from paceline.study.pascal.runs import LEVELS, PROMPTS, TIMES, Runs
from paceline.study.pascal.schedulers import POLICIES
from paceline.study.pascal.tails import compared, extremes, tails
from paceline.study.pascal.workloads import Chats, chats, drawn
from paceline.synthesis import Lognormal, Quantiles

__all__ = ["FORMATS", "VARIATIONS", "Variation", "summary", "variations_page", "varied"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A comparison that differs from the study's own.

    Attributes
    ----------
    what
        In what.
    load
        As `demand` has it.
    times
        How often each prompt is asked.
    slower
        Times that a step takes as long.
    lengths
        The workload.
    settings
        Further ones of `schedulers.scheduler`.
    """

    what: str
    load: float = LEVELS["high"]
    times: int = TIMES
    slower: float = 1.0
    lengths: Chats
    settings: Mapping[str, Any] = field(default_factory=dict)


_ALPACA: Final = chats("alpacaeval")
assert isinstance(_ALPACA.answer_tokens, Quantiles)
_DOUBLED: Final = Quantiles(tuple((p, 2 * count) for p, count in _ALPACA.answer_tokens.points))

VARIATIONS: Final = (
    Variation(what="as it is", lengths=_ALPACA),
    *(Variation(what=f"load {load:g}", load=load, lengths=_ALPACA) for load in (0.9, 1.0, 1.2, 1.3)),
    Variation(what="each prompt three times", times=3, lengths=_ALPACA),
    Variation(what="each prompt 20 times", times=20, lengths=_ALPACA),
    Variation(what="steps half as long again", slower=1.5, lengths=_ALPACA),
    Variation(what="steps twice as long", slower=2.0, lengths=_ALPACA),
    Variation(what="copies to the host take no time", lengths=_ALPACA, settings={"copy_bytes_per_s": 1e18}),
    Variation(
        what="copies at a quarter of PCIe's bandwidth", lengths=_ALPACA, settings={"copy_bytes_per_s": 16e9}
    ),
    Variation(
        what="reasoning half as long at P99, as short below 1,000",
        # 86.8% below 1,000 tokens as before, P99 of 2,250: sigma = ln(2.25) / (2.3263 - 1.1168).
        lengths=replace(_ALPACA, reasoning_tokens=Lognormal(median=473.0, sigma=0.6704, high=16_384)),
    ),
    Variation(what="answers twice as long", lengths=replace(_ALPACA, answer_tokens=_DOUBLED)),
    Variation(what="FCFS of vLLM 0.6.1, whole prompts", lengths=_ALPACA, settings={"vllm_chunks": False}),
    Variation(what="FCFS of vLLM 0.6.1, chunked prefill", lengths=_ALPACA, settings={"vllm_chunks": True}),
    Variation(
        what="PASCAL: who fits now stays, whatever comes", lengths=_ALPACA, settings={"room_tokens": None}
    ),
    *(
        Variation(what=f"PASCAL: {what}", lengths=_ALPACA, settings={"readings": readings})
        for what, readings in (
            ("1% of the blocks stay free at an admission", {"watermark": 0.01}),
            ("on pace by the mean time between tokens", {"on_pace": "mean_interval"}),
            ("Algorithm 1 counts KV on the GPU alone", {"footprint": "gpu"}),
            ("quanta are not counted anew for the answer", {"recount": False}),
            ("answers go on until memory runs out", {"admission": "wait"}),
            ("quanta of 250 tokens", {"quantum": 250}),
        )
    ),
)
"""The comparisons, the study's own first."""

FORMATS: Final[Mapping[str, str]] = {
    "cut FCFS": ".0%",
    "cut FCFS (s)": ".0f",
    "cut RR": ".0%",
    "cut RR (s)": ".0f",
    "e2e median": "+.0%",
    "e2e tail": "+.0%",
    "worse FCFS": ".0%",
    "worse RR": ".0%",
    "violations": ".2%",
    "FCFS's": ".2%",
    "RR's": ".2%",
    "NonAdaptive's": ".2%",
    "blocking": ".2f",
    "NoMigration's": ".2f",
    "transfer": ".3f",
    "throughput": "+.1%",
}


def summary(frames: Mapping[str, pl.DataFrame]) -> dict[str, float]:
    """Return the headline numbers of one comparison, from requests by policy.

    Returns
    -------
    dict
        The most that PASCAL's tail is below and above FCFS's and RR's (``cut``, ``worse``), SLO violations
        of PASCAL, FCFS, RR and NonAdaptive, P99 blocking of PASCAL and NoMigration and P99 transfer of
        PASCAL in seconds, and PASCAL's throughput over the baselines', the one that differs more, less 1.
    """
    by_policy = {policy: tails(frames[policy]) for policy in ("FCFS", "RR", "PASCAL")}
    found = {each: extremes(compared(by_policy, "PASCAL", each)) for each in ("FCFS", "RR")}
    ratios = [throughput(frames["PASCAL"]) / throughput(frames[each]) - 1 for each in ("FCFS", "RR")]
    pascal = frames["PASCAL"]
    ours, always = (end_to_end(frames[each]) for each in ("PASCAL", "PASCAL(NonAdaptive)"))
    return {
        "cut FCFS": found["FCFS"]["cut"],
        "cut FCFS (s)": found["FCFS"]["cut_s"],
        "cut RR": found["RR"]["cut"],
        "cut RR (s)": found["RR"]["cut_s"],
        "worse FCFS": found["FCFS"]["worse"],
        "worse RR": found["RR"]["worse"],
        "violations": violations(pascal),
        "FCFS's": violations(frames["FCFS"]),
        "RR's": violations(frames["RR"]),
        "NonAdaptive's": violations(frames["PASCAL(NonAdaptive)"]),
        "blocking": p99(pascal["blocking"]),
        "NoMigration's": p99(frames["PASCAL(NoMigration)"]["blocking"]),
        "transfer": p99(pascal.filter(pl.col("migrations") > 0)["transfer"]),
        "e2e median": always["P50"] / ours["P50"] - 1,
        "e2e tail": always["P99"] / ours["P99"] - 1,
        "throughput": max(ratios, key=abs),
    }


def varied(runs: Runs) -> pl.DataFrame:
    """Run all comparisons.

    Returns
    -------
    DataFrame
        A row each: ``what`` differs, and the medians of its `summary` over the seeds.
    """
    rows = []
    for one in VARIATIONS:
        instance = pascals_instance(slower=one.slower)
        each = []
        for seed in runs.seeds:
            asked = one.times * PROMPTS["alpacaeval"]
            trace = stretched(drawn(one.lengths, requests=asked, seed=seed), one.load, instance)
            frames = {
                policy: runs.replay(trace, policy, instance=instance, **one.settings).requests
                for policy in POLICIES
            }
            each.append(summary(frames))
        rows.append({"what": one.what} | medians(each))
    return pl.DataFrame(rows)


def variations_page(rows: pl.DataFrame) -> Page:
    """Return the page of comparisons, as `varied` has them."""
    return Page(
        name="variations",
        title="What the numbers hang on",
        parts=(
            "One thing changed at a time, on AlpacaEval2.0 at the high load. Medians over the seeds.",
            Table(
                name="variations-table",
                caption="PASCAL's tail TTFT against FCFS's and RR's (the largest cut and the largest "
                "increase over the bins), SLO violations, P99 blocking and transfer in seconds, and "
                "throughput over the baselines'; end to end, NonAdaptive over PASCAL",
                frame=rows,
                formats=FORMATS,
            ),
        ),
    )

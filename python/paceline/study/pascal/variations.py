"""The same comparison with one thing changed at a time, on AlpacaEval2.0 at the high load.

The paper gives no arrival rates, no number of requests, no lengths but as pictures, no step times and no time
for copying KV to the host, and its text leaves choices in each policy. Each is varied here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

import polars as pl

from paceline.policy import Swap
from paceline.study.model import Page, Table
from paceline.study.pascal.comparison import CAPTION, FORMATS, summary
from paceline.study.pascal.demand import stretched
from paceline.study.pascal.hardware import HOST_STEP_MOST_S, HOST_STEP_S, pascals_instance
from paceline.study.pascal.requests import medians
from paceline.study.pascal.runs import LEVELS, PROMPTS, TIMES, Runs
from paceline.study.pascal.schedulers import POLICIES, Arguments, scheduler
from paceline.study.pascal.workloads import Chats, chats, drawn
from paceline.synthesis import Lognormal, Quantiles

__all__ = ["OWN", "VARIATIONS", "Variation", "planned", "variations_page", "varied"]


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
        Factor on the whole step.
    host_step_s
        Seconds that a step takes beside the roofline.
    lengths
        The workload.
    arguments
        Of the policies' functions.
    """

    what: str
    load: float = LEVELS["high"]
    times: int = TIMES
    slower: float = 1.0
    host_step_s: float = HOST_STEP_S
    lengths: Chats
    arguments: Arguments = field(default_factory=dict)

    @property
    def replayed(self) -> tuple[object, ...]:
        """Trace and instance: variations that are equal in these share replays."""
        return (self.load, self.times, self.slower, self.host_step_s, self.lengths)


_ALPACA: Final = chats("alpacaeval")
assert isinstance(_ALPACA.answer_tokens, Quantiles)
_DOUBLED: Final = Quantiles(tuple((p, 2 * count) for p, count in _ALPACA.answer_tokens.points))

OWN: Final = "as it is"


def _varied(what: str, **settings: Any) -> Variation:  # noqa: ANN401 - those of a Variation
    return Variation(what=what, **{"lengths": _ALPACA, **settings})


def _copying(bytes_per_s: float) -> Arguments:
    """Return a swap of the shipped size at another bandwidth, each way."""
    instance = pascals_instance()
    block_bytes = instance.kv_bytes_per_token * instance.block_tokens
    return {
        "all": {
            "preemption": Swap.sized(
                memory_bytes=256 * 2**30, block_bytes=block_bytes, bytes_per_s=bytes_per_s
            )
        }
    }


VARIATIONS: Final = (
    _varied(OWN),
    *(
        _varied(what, arguments=arguments)
        for what, arguments in (
            ("watermark 0", {"all": {"watermark": 0.0}}),
            ("room: the next step's", {"pascal": {"room": 0}}),
            ("room: the longest answer's", {"pascal": {"room": 2025}}),
            ("swap space of 4 GiB, vLLM's default", {"all": {"preemption": Swap.over_pcie(cpu_gib=4)}}),
            ("swap space of 32 GiB", {"all": {"preemption": Swap.over_pcie(cpu_gib=32)}}),
            ("copies to the host take no time", _copying(1e18)),
            ("copies at a quarter of PCIe's bandwidth", _copying(16e9)),
            ("FCFS of vLLM 0.6.1, whole prompts", {"fcfs": {"strict": False, "chunked_prefill": False}}),
            ("FCFS of vLLM 0.6.1, chunked prefill", {"fcfs": {"strict": False}}),
            ("PASCAL: on pace by the mean time between tokens", {"pascal": {"on_pace": "mean_interval"}}),
            ("PASCAL: Algorithm 1 counts KV on the GPU alone", {"pascal": {"footprint": "gpu"}}),
            ("PASCAL: quanta are not counted anew for the answer", {"pascal": {"recount": False}}),
            ("PASCAL: no displacement", {"pascal": {"admission": "wait"}}),
            ("PASCAL: equal quanta go by arrival", {"pascal": {"turn": "arrival"}}),
            ("PASCAL: prefill ranks before reasoning", {"pascal": {"prefill_as": "first"}}),
            ("PASCAL: demotion by generated tokens", {"pascal": {"demote_by": "generated_tokens"}}),
            ("PASCAL: quanta of 250 tokens", {"pascal": {"quantum": 250}}),
        )
    ),
    _varied("no host time in a step", host_step_s=0.0),
    _varied("13 ms of host time in a step", host_step_s=HOST_STEP_MOST_S),
    _varied("steps half as long again", slower=1.5),
    _varied("steps twice as long", slower=2.0),
    *(_varied(f"load {load:g}", load=load) for load in (0.9, 1.0, 1.2, 1.25, 1.3)),
    _varied("each prompt three times", times=3),
    _varied("each prompt 20 times", times=20),
    _varied(
        "reasoning half as long at P99, as short below 1,000",
        # 86.8% below 1,000 tokens as before, P99 of 2,250: sigma = ln(2.25) / (2.3263 - 1.1168).
        lengths=replace(_ALPACA, reasoning_tokens=Lognormal(median=473.0, sigma=0.6704, high=16_384)),
    ),
    _varied("answers twice as long", lengths=replace(_ALPACA, answer_tokens=_DOUBLED)),
)
"""The comparisons, the study's own first; those that share replays stand together."""


def planned(seeds: int) -> int:
    """Return how many requests `varied` will replay."""
    total = 0
    for _, group in groupby(VARIATIONS, key=lambda one: one.replayed):
        same = list(group)
        policies = {repr(scheduler(name, arguments=one.arguments)) for one in same for name in POLICIES}
        total += len(policies) * same[0].times * PROMPTS["alpacaeval"]
    return seeds * total


def varied(runs: Runs) -> pl.DataFrame:
    """Run all comparisons.

    Returns
    -------
    DataFrame
        A row each: ``what`` differs, and the medians of its `summary` over the seeds.
    """
    rows = []
    for _, group in groupby(VARIATIONS, key=lambda one: one.replayed):
        same = list(group)
        instance = pascals_instance(slower=same[0].slower, host_step_s=same[0].host_step_s)
        found: list[list[dict[str, float]]] = [[] for _ in same]
        for seed in runs.seeds:
            asked = same[0].times * PROMPTS["alpacaeval"]
            trace = stretched(drawn(same[0].lengths, requests=asked, seed=seed), same[0].load, instance)
            done: dict[str, pl.DataFrame] = {}
            for one, summaries in zip(same, found, strict=True):
                frames = {}
                for name in POLICIES:
                    key = repr(scheduler(name, arguments=one.arguments))
                    if key not in done:
                        run = runs.replay(trace, name, instance=instance, arguments=one.arguments)
                        done[key] = run.requests
                    frames[name] = done[key]
                summaries.append(summary(frames))
        rows += [{"what": one.what} | medians(each) for one, each in zip(same, found, strict=True)]
    return pl.DataFrame(rows)


def variations_page(rows: pl.DataFrame) -> Page:
    """Return the page of comparisons, as `varied` has them."""
    return Page(
        name="variations",
        title="What each choice changes",
        parts=(
            "One thing changed at a time, on AlpacaEval2.0 at the high load. Medians over the seeds.",
            Table(name="variations-table", caption=CAPTION, frame=rows, formats=FORMATS),
        ),
    )

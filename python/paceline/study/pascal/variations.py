"""The same comparison with one thing changed at a time, on AlpacaEval2.0 at the high load.

The paper gives no arrival rates, no number of requests, no lengths but as pictures, no step times and no time
for copying KV to the host, and its text leaves choices in each policy. ``choices.toml`` names the variations
of each choice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import polars as pl

from paceline.policies import PascalReading
from paceline.policy import Swap
from paceline.study.choices import Comparisons, choices
from paceline.study.model import Table
from paceline.study.pages import Content
from paceline.study.pascal.hardware import HOST_STEP_MOST_S, pascals_instance
from paceline.study.pascal.runs import Setting, asked
from paceline.study.pascal.workloads import Asked, chats
from paceline.synthesis import Lognormal, Quantiles

__all__ = ["CHOICES", "OWN", "VARIATIONS", "choices_page"]

CHOICES: Final = choices(__package__)
OWN: Final = "as it is"

_SHOWN: Final = ("cut FCFS", "violations", "blocking")
_ALPACA: Final = chats("alpacaeval")
_OWN: Final = Setting(trace=asked("alpacaeval"))
assert isinstance(_ALPACA.answer_tokens, Quantiles)
_DOUBLED: Final = Quantiles(tuple((p, 2 * count) for p, count in _ALPACA.answer_tokens.points))


def _with(function: str, **arguments: Any) -> Setting:  # noqa: ANN401 - of any policy
    """Return the study's own setting with arguments of a policy's function; ``"all"``: of each function."""
    return replace(_OWN, arguments={function: arguments})


def _stepping(**changes: float) -> Setting:
    return replace(_OWN, instance=pascals_instance(**changes))


def _lengths(**changes: Any) -> Setting:  # noqa: ANN401 - of a Chats
    assert isinstance(_OWN.trace, Asked)
    return replace(_OWN, trace=replace(_OWN.trace, workload=replace(_ALPACA, **changes)))


def _copying(bytes_per_s: float) -> Swap:
    """Return a swap of the shipped size at another bandwidth, each way."""
    block_bytes = _OWN.instance.kv_bytes_per_token * _OWN.instance.block_tokens
    return Swap.sized(memory_bytes=256 * 2**30, block_bytes=block_bytes, bytes_per_s=bytes_per_s)


VARIATIONS: Final = {
    OWN: _OWN,
    "watermark 0": _with("all", watermark=0.0),
    "room: the next step's": _with("pascal", reading=PascalReading(room=0)),
    "room: the longest answer's": _with("pascal", reading=PascalReading(room=2025)),
    "swap space of 4 GiB, vLLM's default": _with("all", preemption=Swap.over_pcie(cpu_gib=4)),
    "swap space of 32 GiB": _with("all", preemption=Swap.over_pcie(cpu_gib=32)),
    "copies to the host take no time": _with("all", preemption=_copying(1e18)),
    "copies at a quarter of PCIe's bandwidth": _with("all", preemption=_copying(16e9)),
    "FCFS of vLLM 0.6.1, whole prompts": _with("fcfs", strict=False, chunked_prefill=False),
    "FCFS of vLLM 0.6.1, chunked prefill": _with("fcfs", strict=False),
    "PASCAL: on pace by the mean time between tokens": _with(
        "pascal", reading=PascalReading(on_pace="mean_interval")
    ),
    "PASCAL: Algorithm 1 counts KV on the GPU alone": _with("pascal", reading=PascalReading(footprint="gpu")),
    "PASCAL: quanta are not counted anew for the answer": _with(
        "pascal", reading=PascalReading(recount=False)
    ),
    "PASCAL: no displacement": _with("pascal", admission="wait"),
    "PASCAL: equal quanta go by arrival": _with("pascal", reading=PascalReading(turn="arrival")),
    "PASCAL: prefill ranks before reasoning": _with("pascal", reading=PascalReading(prefill_as="first")),
    "PASCAL: demotion by generated tokens": _with(
        "pascal", reading=PascalReading(demote_by="generated_tokens")
    ),
    "PASCAL: quanta of 250 tokens": _with("pascal", quantum=250),
    "no host time in a step": _stepping(host_step_s=0.0),
    "13 ms of host time in a step": _stepping(host_step_s=HOST_STEP_MOST_S),
    "steps half as long again": _stepping(slower=1.5),
    "steps twice as long": _stepping(slower=2.0),
    **{f"load {load:g}": replace(_OWN, load=load) for load in (0.9, 1.0, 1.2, 1.25, 1.3)},
    "each prompt three times": replace(_OWN, trace=asked("alpacaeval", 3)),
    "each prompt 20 times": replace(_OWN, trace=asked("alpacaeval", 20)),
    # 86.8% below 1,000 tokens as before, P99 of 2,250: sigma = ln(2.25) / (2.3263 - 1.1168).
    "reasoning half as long at P99, as short below 1,000": _lengths(
        reasoning_tokens=Lognormal(median=473.0, sigma=0.6704, high=16_384)
    ),
    "answers twice as long": _lengths(answer_tokens=_DOUBLED),
}
"""The study's own setting first."""


def choices_page(compared: Comparisons | None, overflows: int) -> dict[str, Content]:
    """Return the choices.

    Parameters
    ----------
    compared
        The variations; ``None`` in a quick run, whose page does not say what choices change.
    overflows
        Preemptions of the study's own replays whose KV did not fit into the swap space.
    """
    rows, own = [], {"preemptions beyond the swap space": overflows}
    for choice in CHOICES:
        entry = {"choice": choice.what, "taken": choice.taken, "why": choice.why}
        if compared is not None:
            moved = [compared.moved(what, _SHOWN) for what in choice.rows]
            entry["otherwise"] = " / ".join(moved) or "not varied"
        rows.append(entry)
    shown = {} if compared is None else compared.printed(_SHOWN)
    return {
        "choices-table": Table(pl.DataFrame(rows)),
        "choices-own": Table(pl.DataFrame([{**own, **shown}])),
    }

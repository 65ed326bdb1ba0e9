"""How much KV memory requests need, and the arrival rate at which they need a given share of it.

The paper gives no arrival rates. Here a load is the most KV that the requests of a trace would hold at once
if none ever waited, over the memory of the cluster. At 1 the memory is just full at its fullest moment. Above
1 some request waits or is preempted under any policy. The load follows from the lengths, the arrivals and the
time that a step takes with the memory full, without a replay.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

import paceline
from paceline import Instance
from paceline.study.pascal.hardware import INSTANCES, SEQUENCES, kv_tokens

__all__ = ["full_step_s", "load_of", "most_held", "rate_of", "stretched"]

_Floats = npt.NDArray[np.float64]


def full_step_s(lengths: pl.DataFrame, instance: Instance) -> float:
    """Return how long a decode step takes with the memory full of such requests.

    Parameters
    ----------
    lengths
        ``prompt_tokens`` and ``output_tokens``. A request that has decoded i of its o tokens holds p + i; the
        average over its steps, and over requests by their steps, is E[o p + o^2 / 2] / E[o].
    instance
        What they run on.
    """
    prompt, output = _sides(lengths)
    context = int((output * prompt + output * output / 2).mean() / output.mean())
    steps = 9
    running = max(1, min(SEQUENCES, kv_tokens(instance) // (context + instance.block_tokens)))
    trace = paceline.Trace.from_columns(
        arrival=[0.0] * running,
        prompt_tokens=[max(1, context - steps)] * running,
        output_tokens=[steps + 1] * running,
    )
    # All prompts in one step, so that the others only decode.
    policy = paceline.policies.vllm(max_num_batched_tokens=running * (context + 1), max_num_seqs=running)
    step = paceline.replay(trace, paceline.Cluster([instance]), policy).requests["tpot"].mean()
    assert isinstance(step, float)
    return step


def most_held(arrival: _Floats, lengths: pl.DataFrame, step_s: float) -> float:
    """Return the most tokens of KV that requests hold at once if none waits and all steps take equally long.

    Parameters
    ----------
    arrival
        Seconds, in rising order.
    lengths
        ``prompt_tokens`` and ``output_tokens``, in the same order.
    step_s
        Seconds of a step.

    Examples
    --------
    Two requests, the second after five of the first one's ten steps:

    >>> two = pl.DataFrame({"prompt_tokens": [100, 30], "output_tokens": [10, 10]})
    >>> most_held(np.array([0.0, 5.0]), two, 1.0)
    145.0
    """
    prompt, output = _sides(lengths)
    end = arrival + output * step_s
    order = np.argsort(end, kind="stable")
    # The tokens held grow until a request ends, and are most just before. A request that arrived at a holds
    # p + (t - a) / step at t; of this, p - a / step is summed over all arrivals, less all ended requests.
    fixed = prompt - arrival / step_s
    came = np.searchsorted(arrival, end[order], side="right")
    went = np.arange(len(end))
    held = (
        np.concatenate(([0.0], np.cumsum(fixed)))[came]
        - np.concatenate(([0.0], np.cumsum(fixed[order])))[went]
    )
    return float((held + (came - went) * end[order] / step_s).max())


def load_of(arrival: _Floats, lengths: pl.DataFrame, instance: Instance, instances: int = INSTANCES) -> float:
    """Return the most that requests would hold at once over the memory of the cluster."""
    held = most_held(arrival, lengths, full_step_s(lengths, instance))
    return held / (instances * kv_tokens(instance))


def rate_of(
    load: float, arrival: _Floats, lengths: pl.DataFrame, instance: Instance, instances: int = INSTANCES
) -> float:
    """Return the factor by which the arrival rate must rise for a load, to a ten-thousandth.

    Parameters
    ----------
    load
        Above 0, and below the load of the same requests arriving all at once.
    arrival
        Seconds, in rising order. If their rate is 1, the factor is the rate.
    lengths, instance, instances
        As of the others.
    """
    step = full_step_s(lengths, instance)
    memory = instances * kv_tokens(instance)
    low, high = 1e-6, 1e6
    while high > 1.0001 * low:
        middle = (low * high) ** 0.5
        enough = most_held(arrival / middle, lengths, step) >= load * memory
        low, high = (low, middle) if enough else (middle, high)
    return high


def stretched(trace: paceline.Trace, load: float, instance: Instance) -> paceline.Trace:
    """Return a trace with its time stretched or compressed to a load."""
    frame = trace.frame
    return trace.at_rate(scale=rate_of(load, frame["arrival"].to_numpy(), frame, instance))


def _sides(lengths: pl.DataFrame) -> tuple[_Floats, _Floats]:
    return (
        lengths["prompt_tokens"].to_numpy().astype(np.float64),
        lengths["output_tokens"].to_numpy().astype(np.float64),
    )

"""Whether predictions put configurations in the order that was measured: Kendall's tau by model and GPU.

A configuration is an engine's version and how the model is split over GPUs. Of its closed loops of the same
lengths, those within an objective count, and the one with the most output tokens a second and GPU is its
value; 0 if none is within. By Little's law a closed loop yields ``concurrency * tokens / E2E latency`` tokens
a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, TypedDict

from paceline.validation.points.predicting import Predicted
from paceline.validation.points.workloads import Closed

__all__ = ["TPOT_S", "TTFT_S", "Ranked", "ranking"]

#: The objective: a first token within two seconds, and 20 tokens a second or more to each user, on average.
TTFT_S, TPOT_S = 2.0, 0.05
#: Values that differ by less are not put in an order: the floor of repeated runs is 0.4 to 1.7% in TPOT.
_ALIKE = 0.02


class Ranked(TypedDict):
    """How configurations are ordered.

    Attributes
    ----------
    configurations
        Configurations that are compared with another.
    pairs
        Pairs of the same lengths whose measured values differ.
    tau
        Kendall's tau: the share of pairs in the measured order less that of those in the other; None without
        pairs.
    """

    configurations: int
    pairs: int
    tau: float | None


def ranking(points: Iterable[Predicted]) -> dict[str, Any]:
    """Return the objective, Kendall's tau over all pairs, and that of each model and GPU."""
    values: dict[tuple[str, Any], dict[Any, tuple[float, float]]] = {}
    for one in points:
        cost, workload = one.chosen(), one.point.workload
        if cost is None or not isinstance(workload, Closed):
            continue
        server = one.point.server
        group = f"{server.model.name} on {server.gpu}"
        lengths = (workload.prompt_tokens, workload.output_tokens, one.point.precision)
        of = values.setdefault((group, lengths), {})
        configuration = (server.engine, server.version, server.parallel)
        rates = tuple(_rate(found, workload, server.gpus) for found in (one.point.measured, one.values[cost]))
        if None in rates:
            continue
        best = of.get(configuration, (0.0, 0.0))
        of[configuration] = (max(best[0], rates[0] or 0.0), max(best[1], rates[1] or 0.0))
    groups: dict[str, Ranked] = {}
    for group in sorted({group for group, _ in values}):
        found = _tau([of for (name, _), of in values.items() if name == group])
        if found["pairs"]:
            groups[group] = found
    return {
        "ttft_s": TTFT_S,
        "tpot_s": TPOT_S,
        "overall": _tau(list(values.values())),
        "groups": groups,
    }


def _rate(found: Mapping[str, float], load: Closed, gpus: int) -> float | None:
    """Return the output tokens a second and GPU; 0 beyond the objective, None without TTFT or TPOT."""
    ttft, tpot = found.get("ttft"), found.get("tpot")
    if ttft is None or tpot is None:
        return None
    if ttft > TTFT_S or tpot > TPOT_S:
        return 0.0
    return load.concurrency * load.output_tokens / (ttft + tpot * (load.output_tokens - 1)) / gpus


def _tau(groups: Iterable[Mapping[Any, tuple[float, float]]]) -> Ranked:
    """Return Kendall's tau over the pairs of each group."""
    agree = pairs = configurations = 0
    for values in groups:
        compared = set()
        for (one, first), (other, second) in combinations(values.items(), 2):
            if abs(first[0] - second[0]) <= _ALIKE * max(first[0], second[0]):
                continue
            pairs += 1
            compared |= {one, other}
            order = (first[0] - second[0]) * (first[1] - second[1])
            agree += 1 if order > 0 else -1 if order < 0 else 0
        configurations += len(compared)
    return {
        "configurations": configurations,
        "pairs": pairs,
        "tau": round(agree / pairs, 4) if pairs else None,
    }

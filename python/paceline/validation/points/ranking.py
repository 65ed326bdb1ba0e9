"""Whether predictions put configurations in the order that was measured: Kendall's tau by model and GPU.

A configuration is an engine's version and how the model is split over GPUs. Of its closed loops of the same
lengths, those within an objective count, and the one with the most output tokens a second and GPU is its
value; 0 if none is within. By Little's law a closed loop yields ``concurrency * tokens / E2E latency`` tokens
a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, TypedDict

from paceline.validation.points.predicting import Predicted
from paceline.validation.points.workloads import Closed

__all__ = ["TPOT_S", "TTFT_S", "Pair", "Ranked", "ranked_pairs", "ranking"]

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


class Pair(NamedTuple):
    """Two configurations of the same lengths whose measured values differ.

    Attributes
    ----------
    group
        The model and the GPU.
    lengths
        Tokens of a prompt and of an answer, and the type of weights.
    configurations
        Engine, version and split of both.
    measured, predicted
        Output tokens a second and GPU of both.
    """

    group: str
    lengths: tuple[int, int, str]
    configurations: tuple[tuple[str, str, str], tuple[str, str, str]]
    measured: tuple[float, float]
    predicted: tuple[float, float]

    @property
    def order(self) -> int:
        """1 if both are in the measured order, -1 if in the other one, 0 if they are predicted as equal."""
        (one, other), (first, second) = self.measured, self.predicted
        product = (one - other) * (first - second)
        return 1 if product > 0 else -1 if product < 0 else 0

    @property
    def agrees(self) -> bool:
        """Whether both are in the measured order."""
        return self.order > 0


def ranking(points: Iterable[Predicted]) -> dict[str, Any]:
    """Return the objective, Kendall's tau over all pairs, and that of each model and GPU."""
    pairs = ranked_pairs(points)
    names = sorted({pair.group for pair in pairs})
    return {
        "ttft_s": TTFT_S,
        "tpot_s": TPOT_S,
        "overall": _tau(pairs),
        "groups": {name: _tau([pair for pair in pairs if pair.group == name]) for name in names},
    }


def ranked_pairs(points: Iterable[Predicted]) -> list[Pair]:
    """Return the pairs of configurations whose measured values differ."""
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
    return [
        Pair(group, lengths, (one, other), (first[0], second[0]), (first[1], second[1]))
        for (group, lengths), of in values.items()
        for (one, first), (other, second) in combinations(of.items(), 2)
        if abs(first[0] - second[0]) > _ALIKE * max(first[0], second[0])
    ]


def _rate(found: Mapping[str, float], load: Closed, gpus: int) -> float | None:
    """Return the output tokens a second and GPU; 0 beyond the objective, None without TTFT or TPOT."""
    ttft, tpot = found.get("ttft"), found.get("tpot")
    if ttft is None or tpot is None:
        return None
    if ttft > TTFT_S or tpot > TPOT_S:
        return 0.0
    return load.concurrency * load.output_tokens / (ttft + tpot * (load.output_tokens - 1)) / gpus


def _tau(pairs: Sequence[Pair]) -> Ranked:
    """Return Kendall's tau over pairs."""
    compared = {
        (one.group, one.lengths, configuration) for one in pairs for configuration in one.configurations
    }
    return {
        "configurations": len(compared),
        "pairs": len(pairs),
        "tau": round(sum(one.order for one in pairs) / len(pairs), 4) if pairs else None,
    }

"""The kernel of the routed experts, reduced to the coefficients that the engine evaluates."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any, NamedTuple

from paceline._clock import ticks
from paceline.cost.coverage import Coverage
from paceline.cost.matrices import expert_numbers
from paceline.model import Experts, Model
from paceline.model.dtypes import WEIGHT_BYTES

__all__ = ["ExpertKernels", "covered_experts", "mixture_wire", "shared_experts", "slowest_rank"]

# Once fewer experts than this are missed, all are taken to be hit.
_MISSED = 1e-3


class ExpertKernels(NamedTuple):
    """How fast a GPU runs routed experts.

    Attributes
    ----------
    bandwidth, arithmetic
        Bytes and FLOPs a second.
    layer_s
        Seconds of a layer's experts beyond these.
    add
        Whether traffic and arithmetic add up; else the longer counts.
    """

    bandwidth: float
    arithmetic: float
    layer_s: float
    add: bool


@lru_cache(maxsize=64)
def covered_experts(experts: Experts, coverage: Coverage | None) -> tuple[float, ...]:
    """Return how many experts of a layer are needed by 1, 2, … tokens, until that is constant.

    Routing is uniform, in closed form, or follows a measured curve. There is a value for each whole number
    of tokens, so that the engine, which interpolates between points, is exact at all of them. The values
    are cached: every replay needs them, and a measured curve has thousands of points.

    Examples
    --------
    >>> from paceline.model import Experts
    >>> covered = covered_experts(Experts(count=8, per_token=2, intermediate_size=1), None)
    >>> covered[0], covered[1], covered[-1]
    (2.0, 3.5, 8.0)
    """
    if coverage is not None:
        return tuple(experts.count * coverage.at(n) for n in range(1, coverage.tokens[-1] + 1))
    if experts.per_token == experts.count:
        return (float(experts.count),)
    missed = math.log(1 - experts.per_token / experts.count)
    last = math.ceil(math.log(_MISSED / experts.count) / missed)
    return (*(experts.expected(n) for n in range(1, last + 1)), float(experts.count))


def shared_experts(experts: Experts, coverage: Coverage | None, data_ranks: int) -> list[float]:
    """Return how many experts ``data_ranks`` ranks with 1, 2, … tokens each need together."""
    covered = covered_experts(experts, coverage)
    last = -(-len(covered) // data_ranks)
    return [covered[min(own * data_ranks, len(covered)) - 1] for own in range(1, last + 1)]


def slowest_rank(covered: float, count: int, ranks: int) -> float:
    """Return the experts that the busiest rank reads, if whole experts are distributed over ranks.

    Of ``covered`` experts out of ``count``, a rank has a hypergeometric number, of mean ``covered / ranks``.
    All ranks wait for the one with the most. Its mean is approximated as for normal numbers that add up to
    ``covered``. It is at least one expert and at most what a rank holds. Popular experts, which engines
    spread over ranks, are not modelled.

    Examples
    --------
    >>> round(slowest_rank(8, 128, 2), 2)    # of a token's 8 experts, the busier of two ranks has 5.1
    5.1
    >>> slowest_rank(128, 128, 4)
    32.0
    """
    mean = covered / ranks
    if ranks == 1 or count == 1:
        return mean
    variance = mean * (1 - 1 / ranks) * (count - covered) / (count - 1)
    ahead = math.sqrt(max(variance, 0.0) * ranks / (ranks - 1)) * _largest_of(ranks)
    return min(max(mean + ahead, 1.0), covered, count / ranks)


@cache
def _largest_of(number: int) -> float:
    """Return the mean of the largest of so many standard normal numbers."""
    from statistics import NormalDist  # with `fractions`, an import that few replays need

    normal, parts = NormalDist(), 4000
    # The largest has the quantile of u ** (1 / number) at probability u.
    return sum(normal.inv_cdf(((i + 0.5) / parts) ** (1 / number)) for i in range(parts)) / parts


def mixture_wire(
    model: Model,
    experts: Experts,
    *,
    ranks: int,
    data_ranks: int,
    whole: bool,
    coverage: Coverage | None,
    kernels: ExpertKernels,
    number: int,
) -> dict[str, Any]:
    """Return the coefficients of all layers' routed experts on one of ``ranks`` tensor-parallel ranks.

    ``data_ranks`` ranks of attention share the experts, each with as many tokens as this one. ``whole``
    experts are distributed over all ranks, else each expert is split over all of them. Either way a rank
    multiplies its share of the tokens' experts; whole experts are taken to have even loads there, as batches
    that are bound by arithmetic are large. Activations have ``number`` bytes.
    """
    layers = model.layers - experts.dense_layers
    weights = 3 * model.hidden_size * experts.intermediate_size
    expert_s = weights * WEIGHT_BYTES[model.expert_dtype] / kernels.bandwidth
    sharing = ranks * data_ranks
    points = []
    for tokens, covered in enumerate(shared_experts(experts, coverage, data_ranks), start=1):
        read = slowest_rank(covered, experts.count, sharing) if whole else covered / sharing
        points.append([tokens, ticks(layers * (kernels.layer_s + read * expert_s))])
    traffic = expert_numbers(model, experts, ranks=ranks, data_ranks=data_ranks, whole=whole)
    moved = layers * traffic * number / kernels.bandwidth
    multiplied = layers * 2 * experts.per_token * weights / ranks / kernels.arithmetic
    # The engine takes the longer of the two, so what adds up is one.
    return {
        "weights": points,
        "token_bytes": ticks(moved + multiplied if kernels.add else moved),
        "token_flops": 0 if kernels.add else ticks(multiplied),
    }

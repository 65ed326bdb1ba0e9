"""A profile: what each kernel of one rank took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError
from paceline.kernels.curve import Curve
from paceline.kernels.grid import Grid
from paceline.kernels.skew import Skew

__all__ = ["KernelProfile"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
@typed_fields()
class KernelProfile:
    """The kernels of one rank, in seconds; of one layer, where a layer repeats.

    Parameters
    ----------
    name
        What reports call it: model and GPU, as the source gives them.
    source
        Where it was read from.
    dense
        By layer, over the tokens of a step: ``qkv_proj``, ``layernorm``, and so on. Of a mixture of experts
        also ``router`` and ``shared_experts``, and ``experts`` over the tokens of all ranks that share them,
        where they were measured so and not by experts activated.
    per_sequence
        By layer, over the requests of a step: ``lm_head`` and ``sampler``.
    decode, prefill, mixed
        Attention of steps that only decode, only prefill, and do both.
    skew
        What unequal contexts cost; None where that was not measured, or the profile says not to use it.
    experts
        Mixture of experts over tokens and experts activated: by number of experts, a curve over tokens.
    dealt
        The same on one of several ranks that whole experts are dealt out to, by their number: over the tokens
        of all ranks, and the experts activated on this one.
    collectives
        Seconds over bytes of the whole message: ``all_reduce`` and ``all_gather`` over the ranks of tensor
        parallelism, ``dispatch`` and ``combine`` over those of data parallelism; what was measured of them.
    whole_attention
        Whether the times of attention hold its projections and positions too.
    tensor_parallel
        Ranks of which this is one, where the source says; None where it does not.
    facts
        What else the source says, by its own names: GPU, versions, dates.

    Raises
    ------
    ConfigError
        If there is neither a dense layer nor attention.
    """

    name: str
    source: str
    dense: Mapping[str, Curve]
    per_sequence: Mapping[str, Curve]
    decode: Grid | None = None
    prefill: Grid | None = None
    mixed: Grid | None = None
    skew: Skew | None = None
    experts: Mapping[int, Curve] = field(default_factory=dict)
    dealt: Mapping[int, Mapping[int, Curve]] = field(default_factory=dict)
    collectives: Mapping[str, Curve] = field(default_factory=dict)
    whole_attention: bool = False
    tensor_parallel: int | None = None
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.dense and self.decode is None:
            raise ConfigError(
                f"kernel profile {self.source} must have dense layers or attention, had neither"
            )

    @typed()
    def expert_time(self, tokens: float, activated: float, *, ranks: int = 1) -> float:
        """Return what a layer's experts take: linear between measured tokens and numbers of experts.

        Parameters
        ----------
        tokens
            Tokens, each as much work as all the experts that one token is routed to.
        activated
            Experts that get any of them, and of which the weights are read.
        ranks
            Of how many ranks that experts were dealt out to this was measured as one.
        """
        curves = self.experts if ranks == 1 else self.dealt.get(ranks, {})
        counts = tuple(sorted(curves))
        if not counts:
            raise ConfigError(f"kernel profile {self.source} must have moe.csv for a model with experts")
        times = tuple(curves[count](tokens) for count in counts)
        if len(counts) > 1 and activated < counts[0]:
            # One rank of several may have fewer than a token is routed to, which is the fewest on one alone.
            slope = (times[1] - times[0]) / (counts[1] - counts[0])
            return max(times[0] - max(slope, 0.0) * (counts[0] - activated), 0.0)
        return Curve(counts, times)(activated)

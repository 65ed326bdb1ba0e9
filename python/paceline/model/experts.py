"""The routed experts of a model, and how many of them a batch needs."""

from __future__ import annotations

from dataclasses import dataclass

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError
from paceline.model.dtypes import WEIGHT_BYTES

__all__ = ["Experts"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Experts:
    """The mixture that takes the place of a layer's MLP.

    Parameters
    ----------
    count
        Experts of a layer.
    per_token
        Experts that a token is routed to.
    intermediate_size
        Width of one expert's gated MLP.
    shared_intermediate_size
        Width of the shared experts of a layer together, which every token passes; 0 for none.
    dense_layers
        Layers that keep a dense MLP instead, of the model's ``intermediate_size``.
    dtype
        Of the experts' weights: ``"auto"`` (that of the model's other matrices), ``"bfloat16"``,
        ``"float16"``, ``"fp8"``, ``"mxfp4"`` or ``"nvfp4"``.
    bias
        Whether the experts' projections add biases.
    router_dtype
        Of the router's matrix and arithmetic: ``"auto"`` (the model's ``dtype``), or ``"float32"``.
    router_bias
        Whether the router has a number for each expert besides its matrix.
    shared_gate
        Whether a number that each token is projected to scales the shared experts.

    Raises
    ------
    ConfigError
        If a number is not a whole one in its range, or a token is routed to more experts than there are.

    Examples
    --------
    >>> experts = Experts(count=128, per_token=8, intermediate_size=768)
    >>> experts.expected(1), round(experts.expected(32), 1)
    (8.0, 111.8)
    """

    count: int
    per_token: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    dense_layers: int = 0
    dtype: str = "auto"
    bias: bool = False
    router_dtype: str = "auto"
    router_bias: bool = False
    shared_gate: bool = False

    def __post_init__(self) -> None:
        for field in ("count", "per_token", "intermediate_size"):
            _check.count(f"{field} of Experts", getattr(self, field))
        for field in ("shared_intermediate_size", "dense_layers"):
            _check.count(f"{field} of Experts", getattr(self, field), least=0)
        if self.per_token > self.count:
            raise ConfigError(
                f"per_token of Experts must be at most their count {self.count}, was {self.per_token}"
            )
        if self.dtype != "auto" and self.dtype not in WEIGHT_BYTES:
            known = ", ".join(WEIGHT_BYTES)
            raise ConfigError(f"dtype of Experts must be auto or one of {known}, was {self.dtype!r}")
        if self.router_dtype not in ("auto", "float32"):
            raise ConfigError(f"router_dtype of Experts must be auto or float32, was {self.router_dtype!r}")

    @typed()
    def expected(self, tokens: float) -> float:
        """Return how many experts of a layer get at least one of ``tokens`` tokens, routed uniformly.

        A token misses an expert with probability ``1 - k/E``, and tokens are independent, so
        ``E * (1 - (1 - k/E) ** tokens)`` are hit. Real routers are less even: see
        :class:`~paceline.cost.Coverage`.
        """
        return float(self.count) * (1.0 - float((1 - self.per_token / self.count) ** tokens))

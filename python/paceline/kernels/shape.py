"""What of a model adding its kernels up depends on."""

from __future__ import annotations

from dataclasses import dataclass

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._check import is_number, said
from paceline.errors import ConfigError
from paceline.model import Model, model_names

__all__ = ["MIXTURES", "Shape"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Shape:
    """Layers and widths of a model, with its experts if it has any.

    Parameters
    ----------
    layers
        Decoder blocks.
    hidden_size
        Width of the residual stream.
    vocab_size
        Rows of the LM head.
    experts, experts_per_token
        Experts of a layer and how many of them a token is routed to; 0 and 0 for a dense model.
    dense_layers
        Layers of a mixture that have a dense MLP instead.
    dtype_bytes
        Bytes of an activation.
    kv_heads, head_dim
        Of the KV cache; 0 where they are not needed.
    parameters
        Numbers in the weights; 0 where they are not needed.
    norm_reductions
        All-reduces of two 32-bit numbers a token, of layers that norm queries and keys over all heads.

    Examples
    --------
    >>> Shape.of(Model.load("llama-3.1-8b")).layers
    32
    >>> Shape.of(Model.load("qwen3-30b-a3b")).expected_experts(tokens=1)
    8.0
    """

    layers: int
    hidden_size: int
    vocab_size: int
    experts: int = 0
    experts_per_token: int = 0
    dense_layers: int = 0
    dtype_bytes: int = 2
    kv_heads: int = 0
    head_dim: int = 0
    parameters: int = 0
    norm_reductions: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "hidden_size", "vocab_size"):
            _check.count(f"{name} of a Shape", getattr(self, name))

    @classmethod
    @typed()
    def of(cls, model: Model) -> Shape:
        """Return the shape of a model from the catalog."""
        experts = model.experts
        return cls(
            layers=model.layers,
            hidden_size=model.hidden_size,
            vocab_size=model.vocab_size,
            experts=0 if experts is None else experts.count,
            experts_per_token=0 if experts is None else experts.per_token,
            dense_layers=0 if experts is None else experts.dense_layers,
            dtype_bytes=model.kv_dtype_bytes(model.dtype),
            kv_heads=model.kv_heads,
            head_dim=model.head_dim,
            parameters=model.parameters,
            norm_reductions=model.norm_reductions,
        )

    @typed()
    def expected_experts(self, tokens: float) -> float:
        """Return how many experts get at least one of ``tokens`` tokens, each routed uniformly.

        A token misses an expert with probability ``1 - k/E``, so ``E * (1 - (1 - k/E) ** tokens)`` are hit.
        """
        if not self.experts:
            raise ConfigError("expected_experts() needs a shape with experts, was one without")
        if not (is_number(tokens) and tokens >= 0):
            raise ConfigError(f"tokens must be a finite number, 0 or more, was {said(tokens)}")
        return float(self.experts) * (1.0 - float((1 - self.experts_per_token / self.experts) ** tokens))


#: The catalog's models with experts, by name.
MIXTURES = {
    name: Shape.of(model)
    for name, model in ((name, Model.load(name)) for name in model_names())
    if model.experts is not None
}

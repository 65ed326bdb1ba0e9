"""What of a model adding its kernels up depends on."""

from __future__ import annotations

from dataclasses import dataclass

from paceline import _check
from paceline.model import Model

__all__ = ["MIXTURES", "Shape"]


@dataclass(frozen=True, slots=True, kw_only=True)
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
    dtype_bytes
        Bytes of an activation.
    kv_heads, head_dim
        Of the KV cache; 0 where they are not needed.
    parameters
        Numbers in the weights; 0 where they are not needed.

    Examples
    --------
    >>> Shape.of(Model.load("llama-3.1-8b")).layers
    32
    >>> MIXTURES["qwen3-30b-a3b"].expected_experts(tokens=1)
    8.0
    """

    layers: int
    hidden_size: int
    vocab_size: int
    experts: int = 0
    experts_per_token: int = 0
    dtype_bytes: int = 2
    kv_heads: int = 0
    head_dim: int = 0
    parameters: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "hidden_size", "vocab_size"):
            _check.count(f"{name} of a Shape", getattr(self, name))

    @classmethod
    def of(cls, model: Model) -> Shape:
        """Return the shape of a model from the catalog."""
        return cls(
            layers=model.layers,
            hidden_size=model.hidden_size,
            vocab_size=model.vocab_size,
            dtype_bytes=model.kv_dtype_bytes(model.dtype),
            kv_heads=model.kv_heads,
            head_dim=model.head_dim,
            parameters=model.parameters,
        )

    def expected_experts(self, tokens: float) -> float:
        """Return how many experts get at least one of ``tokens`` tokens, each routed uniformly.

        A token misses an expert with probability ``1 - k/E``, so ``E * (1 - (1 - k/E) ** tokens)`` are hit.
        """
        return float(self.experts) * (1.0 - float((1 - self.experts_per_token / self.experts) ** tokens))


#: Models with experts whose shapes the catalog lacks. Source: config.json of each on huggingface.co, and the
#: number of parameters from its model card.
MIXTURES = {
    "qwen3-30b-a3b": Shape(
        layers=48, hidden_size=2048, vocab_size=151936, experts=128, experts_per_token=8,
        kv_heads=4, head_dim=128, parameters=30_532_122_624,
    ),
    "qwen3-235b-a22b": Shape(
        layers=94, hidden_size=4096, vocab_size=151936, experts=128, experts_per_token=8,
        kv_heads=4, head_dim=128, parameters=235_093_634_560,
    ),
    "mixtral-8x7b": Shape(
        layers=32, hidden_size=4096, vocab_size=32000, experts=8, experts_per_token=2,
        kv_heads=8, head_dim=128, parameters=46_702_792_704,
    ),
    "phi-3.5-moe": Shape(
        layers=32, hidden_size=4096, vocab_size=32064, experts=16, experts_per_token=2,
        kv_heads=8, head_dim=128, parameters=41_873_153_344,
    ),
}  # fmt: skip

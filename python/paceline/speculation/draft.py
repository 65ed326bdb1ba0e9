"""A draft model or head: the time of its passes, and the memory that it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from paceline import _check
from paceline._arguments import typed_fields
from paceline.cost import Affine, Roofline
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.model import Model

__all__ = ["Draft"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(but=("model", "cost"))
class Draft:
    """What proposes the drafts, priced as a model of its own on the target's GPUs.

    After each step the drafter makes ``tokens`` passes. The first computes all tokens of the step, since the
    drafter has KV of its own; each further one computes a token of each request that goes on.

    Parameters
    ----------
    model
        A small decoder, by its name in the catalog or as a :class:`~paceline.Model`. None: a head of
        ``layers`` layers like the target's, such as EAGLE's or an MTP layer, which shares the target's
        embedding and LM head.
    layers
        Layers of a head.
    vocab_size
        Rows of a head's own LM head: ``draft_vocab_size`` of an EAGLE-3 head, 32,000 for Llama-3.1-8B. None:
        it shares the target's.
    cost
        The time of a pass: an :class:`~paceline.Affine` or a :class:`~paceline.Roofline`; by default a
        roofline.

    Raises
    ------
    ConfigError
        If a value is out of range.

    Examples
    --------
    >>> target = Model.load("llama-3.1-8b")
    >>> Draft().shape(target).layers
    1
    >>> Draft().kv_bytes_per_token(target), target.kv_bytes_per_token(1, "auto")
    (4096, 131072)
    """

    model: str | Model | None = None
    layers: int = 1
    vocab_size: int | None = None
    cost: Affine | Roofline | None = None

    def __post_init__(self) -> None:
        _check.count("layers of a Draft", self.layers, most=64, why="a head has few layers")
        if not (self.model is None or isinstance(self.model, str | Model)):
            raise ConfigError(f"model of a Draft must be a name or a Model, was {_check.said(self.model)}")
        if self.vocab_size is not None:
            _check.count("vocab_size of a Draft", self.vocab_size, most=2**32 - 2, why="the largest count")
            if self.model is not None:
                raise ConfigError("vocab_size of a Draft must be None beside a model, which has its own")
        if not (self.cost is None or isinstance(self.cost, Affine | Roofline)):
            raise ConfigError(
                f"cost of a Draft must be an Affine or a Roofline, was {_check.said(self.cost)}"
            )

    def shape(self, target: Model) -> Model:
        """Return the drafter as a model."""
        if isinstance(self.model, Model):
            return self.model
        if self.model is not None:
            return Model.load(self.model)
        head = replace(target, name=f"a draft head of {target.name}", layers=self.layers)
        if self.vocab_size is None:
            return head
        return replace(head, vocab_size=self.vocab_size, tied_embeddings=False)

    def weight_bytes(self, target: Model, tensor_parallel: int = 1) -> int:
        """Return the bytes of the drafter's weights on one rank; a head shares the target's embedding."""
        drafter = self.shape(target)
        whole = drafter.weight_bytes(tensor_parallel)
        if self.model is not None:
            return whole
        # What the layers add: twice the layers have embedding and LM head once, too.
        twice = replace(drafter, layers=2 * self.layers).weight_bytes(tensor_parallel)
        if self.vocab_size is None:
            return twice - whole
        tied = replace(drafter, tied_embeddings=True).weight_bytes(tensor_parallel)
        return twice - whole + (whole - tied)

    def kv_bytes_per_token(self, target: Model, tensor_parallel: int = 1, kv_dtype: str = "auto") -> int:
        """Return the bytes of one token's keys and values in the drafter's layers, on each rank."""
        return self.shape(target).kv_bytes_per_token(tensor_parallel, kv_dtype)

    def to_wire(
        self, target: Model | None, gpu: Gpu | None, *, tensor_parallel: int, kv_dtype: str
    ) -> dict[str, Any]:
        """Return the cost of a pass as the engine reads it."""
        if isinstance(self.cost, Affine):
            return self.cost.to_wire()
        if target is None or gpu is None:
            raise ConfigError(
                "a Draft of an Instance without a model or a gpu must have an Affine as its cost, had none"
            )
        roofline = self.cost or Roofline()
        return roofline.to_wire(self.shape(target), gpu, tensor_parallel=tensor_parallel, kv_dtype=kv_dtype)

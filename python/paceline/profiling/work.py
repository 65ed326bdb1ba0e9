"""What is measured: kernels by their sizes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Attention", "Elementwise", "Experts", "Lookup", "Product", "Sampling", "Work"]


@dataclass(frozen=True, slots=True)
class Product:
    """Rows times a matrix of weights."""

    rows: int
    inputs: int
    outputs: int

    @property
    def numbers(self) -> int:
        """Numbers in memory at once."""
        return self.inputs * self.outputs + self.rows * (self.inputs + self.outputs)


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A layer without weights to speak of: ``norm`` adds a residual and normalises, ``rotary`` turns pairs.

    ``gate`` multiplies one half of each row, through a sigmoid linear unit, with the other.
    """

    kind: str
    rows: int
    width: int

    @property
    def numbers(self) -> int:
        """Numbers in memory at once."""
        return 3 * self.rows * self.width


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows of the embedding."""

    rows: int
    vocab: int
    width: int

    @property
    def numbers(self) -> int:
        """Numbers in memory at once."""
        return (self.vocab + self.rows) * self.width


@dataclass(frozen=True, slots=True)
class Attention:
    """``tokens`` of a prompt after ``history`` others, or ``requests`` that each decode over ``context``."""

    tokens: int
    history: int
    requests: int
    context: int
    heads: int
    kv_heads: int
    head_dim: int

    @property
    def numbers(self) -> int:
        """Numbers in memory at once."""
        seen = self.tokens + self.history if self.tokens else self.requests * self.context
        asked = self.tokens or self.requests
        return self.head_dim * (2 * self.kv_heads * seen + 2 * self.heads * asked)


@dataclass(frozen=True, slots=True)
class Experts:
    """Tokens through ``per_token`` experts each, all together through ``activated`` of them, evenly."""

    tokens: int
    activated: int
    per_token: int
    hidden: int
    width: int

    @property
    def numbers(self) -> int:
        """Numbers in memory at once."""
        return 3 * self.activated * self.hidden * self.width + self.tokens * self.per_token * self.hidden


@dataclass(frozen=True, slots=True)
class Sampling:
    """The likeliest token of each request's logits, in 32-bit numbers as engines have them."""

    requests: int
    vocab: int

    @property
    def numbers(self) -> int:
        """Numbers in memory at once, of 16 bits."""
        return 3 * self.requests * self.vocab


#: Anything that can be measured.
Work = Product | Elementwise | Lookup | Attention | Experts | Sampling

"""Attention over a compressed cache."""

from __future__ import annotations

from dataclasses import dataclass

from paceline import _check
from paceline._arguments import typed_fields

__all__ = ["Latent"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).

    The cache holds one vector a token, which keys and values of all heads are projected from, and one rotary
    key that the heads share: no factor of two, and nothing to split over tensor-parallel ranks.

    Parameters
    ----------
    kv_rank
        Width of the compressed vector.
    rope_dim
        Width of the shared rotary key.
    nope_dim
        Width of the part of a head's query and key without positions.
    value_dim
        Width of a head's value.
    query_rank
        Width that queries are compressed to; ``None`` where they are not.

    Examples
    --------
    >>> Latent(kv_rank=512, rope_dim=64, nope_dim=128, value_dim=128, query_rank=1536).cached
    576
    """

    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    query_rank: int | None = None

    def __post_init__(self) -> None:
        for field in ("kv_rank", "rope_dim", "nope_dim", "value_dim"):
            _check.count(f"{field} of Latent", getattr(self, field))
        if self.query_rank is not None:
            _check.count("query_rank of Latent", self.query_rank)

    @property
    def cached(self) -> int:
        """Numbers that a token keeps in each layer."""
        return self.kv_rank + self.rope_dim

    @property
    def head_dim(self) -> int:
        """Width of a head's query and key, positions among them."""
        return self.nope_dim + self.rope_dim

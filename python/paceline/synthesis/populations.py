"""The tenants that sessions belong to, and the prompts that sessions share."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from paceline import _check
from paceline._arguments import typed_fields
from paceline._check import said
from paceline.errors import ConfigError
from paceline.synthesis.lengths import Constant, Lengths
from paceline.synthesis.stable import Floats, power

__all__ = ["SharedPrompts", "Tenants", "chosen"]


@dataclass(frozen=True, slots=True)
@typed_fields()
class Tenants:
    """The tenants that sessions belong to, by a power law: the k-th has a share proportional to k ** -skew.

    Attributes
    ----------
    count
        Tenants, at least 1.
    skew
        At least 0; 0 gives each the same share.
    """

    count: int
    skew: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        _check.count("count of Tenants", self.count)
        _check.not_negative("skew of Tenants", self.skew)


@dataclass(frozen=True, slots=True)
@typed_fields()
class SharedPrompts:
    """System prompts and tool definitions with which prompts of several sessions start.

    The prompts of a trace with them have ids (``prefix``), one for each block of content. Sessions of a group
    have the same ids as far as the shared prompt goes.

    Attributes
    ----------
    tokens
        Tokens of a group's shared prompt, drawn once for each group.
    groups
        Different shared prompts, at least 1.
    skew
        How unequally sessions choose among them: the k-th has a share proportional to k ** -skew.
    share
        The part of the sessions that have a shared prompt, from 0 to 1.
    by_tenant
        Whether each tenant has groups of its own.
    block_tokens
        Tokens that an id stands for; a content that ends within a block has no id there. Finer blocks find
        more, and take more memory: a prompt of 100,000 tokens has 1,562 ids of 64 tokens.
    """

    tokens: Lengths = field(default_factory=lambda: Constant(1024))
    groups: int = field(default=1, kw_only=True)
    skew: float = field(default=1.0, kw_only=True)
    share: float = field(default=1.0, kw_only=True)
    by_tenant: bool = field(default=False, kw_only=True)
    block_tokens: int = field(default=64, kw_only=True)

    def __post_init__(self) -> None:
        _check.count("groups of SharedPrompts", self.groups, most=2**20)
        _check.not_negative("skew of SharedPrompts", self.skew)
        _check.count("block_tokens of SharedPrompts", self.block_tokens, most=2**20)
        if not (_check.is_number(self.share) and 0 <= self.share <= 1):
            raise ConfigError(f"share of SharedPrompts must be from 0 to 1, was {said(self.share)}")


def chosen(u: Floats, count: int, skew: float) -> npt.NDArray[np.int64]:
    """Choose among `count` things, the k-th (from 1) with a share proportional to k ** -skew."""
    if count == 1:
        return np.zeros(len(u), dtype=np.int64)
    until = np.cumsum(power(np.arange(1, count + 1, dtype=np.float64), -float(skew)))
    found = np.searchsorted(until, u * until[-1], side="right")
    within: npt.NDArray[np.int64] = np.minimum(found, count - 1).astype(np.int64)
    return within

"""The order in which a prefix cache evicts blocks, as expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paceline._arguments import typed_fields
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.expressions.scope import Scope, number
from paceline.policy.expressions.tree import Expr, Field
from paceline.policy.expressions.wire import Names
from paceline.policy.expressions.wire import to_wire as expression_to_wire
from paceline.policy.step_limits import UNCHANGING
from paceline.policy.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Eviction"]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError, but=("order", "groups", "first"))
class Eviction(Value):
    """Evict cached blocks that no request holds in an order of their own.

    Blocks whose content is unknown, or that were never allocated, are reused before. Expressions read
    `block`, and of the request that freed the block last, `req`, the columns of the trace.

    Attributes
    ----------
    order
        A number: the smallest is evicted first. It is evaluated when the block is freed, and does not read
        `block.idle`. Ties are evicted in the order in which they were freed: of a request, the last block
        first.
    groups
        A number by which blocks are in groups, evaluated likewise. In each group ``order`` holds.
    first
        With ``groups``: a number, evaluated for the first block of each group when a block is to be
        evicted; the smallest is. It may read `block.idle`, so that the order of the groups changes with
        time.

    Raises
    ------
    PolicyError
        If an expression reads what is not known of a block, or only one of ``groups`` and ``first`` is given.

    Examples
    --------
    The least recently used block, where blocks of requests of priority 0 count as idle for a quarter of
    the time:

    >>> from paceline.policy import Eviction, PrefixCache, block, req, where
    >>> weight = where(req.priority == 0, 1, 4)
    >>> eviction = Eviction(order=block.last_use, groups=weight, first=-block.idle * weight)
    >>> PrefixCache(evict=eviction).evict.groups
    where(req.priority == 0, 1, 4)
    """

    order: Expr | float
    groups: Expr | float | None = None
    first: Expr | float | None = None

    def __post_init__(self) -> None:
        if (self.groups is None) != (self.first is None):
            raise PolicyError(
                "groups and first of an Eviction must be given both or neither, were "
                f"{said(self.groups)} and {said(self.first)}"
            )
        for name in ("order", "groups", "first"):
            value = getattr(self, name)
            if value is not None:
                checked = number(value, f"{name} of an Eviction", Scope.EVICTION)
                _check_known(checked, name)
                object.__setattr__(self, name, checked)

    def expressions(self) -> Iterator[Expr]:
        """Yield its expressions."""
        yield from (each for each in (self.order, self.groups, self.first) if isinstance(each, Expr))

    def to_wire(self, names: Names) -> dict[str, Any]:
        """Return the order as the engine reads it."""
        order, *groups = (expression_to_wire(each, names) for each in self.expressions())
        return {"order": order, "groups": dict(zip(("by", "first"), groups, strict=True)) if groups else None}


def _check_known(expression: Expr, name: str) -> None:
    """Refuse fields that are not known of a block once its request is gone."""
    for part in expression.walk():
        if not isinstance(part, Field):
            continue
        if part.space in ("req", "oracle") and part.name not in _OF_TRACE:
            known = ", ".join(sorted(_OF_TRACE))
            raise PolicyError(
                f"{name} of an Eviction must read of the request that freed a block only what the trace has "
                f"({known}), was {part!r}"
            )
        if (part.space, part.name) == ("block", "idle") and name != "first":
            raise PolicyError(
                f"{name} of an Eviction must not read block.idle, as it is evaluated when a block is freed; "
                "first may, and block.last_use does not change"
            )


_OF_TRACE = (UNCHANGING - {"prefill_time"}) | {"column"}

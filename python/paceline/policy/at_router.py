"""Rules that keep an arriving request at its router, or reject it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy.expressions.tree import Expr, Operand, lift
from paceline.policy.rules import Chain
from paceline.policy.value import shown

__all__ = ["Blocks", "Hold", "Reject", "hold", "reject"]

Blocks = Literal["all", "tenant", "session"]
"""Which later requests of its router wait behind a request that is held, without being asked about."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Hold(Chain):
    """Keep an arriving request at the router. Made by `hold`."""

    blocks: Blocks | None = None

    @property
    def conditional(self) -> bool:
        """Whether it may leave a request undecided."""
        return False

    def __repr__(self) -> str:
        return "hold()" if self.blocks is None else f"hold(blocks={shown(self.blocks)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Reject(Chain):
    """Reject an arriving request. Made by `reject`."""

    condition: Expr | None = None

    @property
    def conditional(self) -> bool:
        """Whether it may leave a request undecided."""
        return self.condition is not None

    def __repr__(self) -> str:
        return "reject()" if self.condition is None else f"reject(when={self.condition!r})"


@typed(PolicyError)
def hold(*, blocks: Blocks | None = None) -> Hold:
    """Keep an arriving request at the router.

    The rule is asked again about each request that is held, in order of arrival,
    whenever a request gets its first token, finishes or is dropped on any instance,
    an instance changes its pool, instances report, or a request arrives.
    `Policy(give_up_after=...)` bounds the wait.

    Parameters
    ----------
    blocks
        Which later requests of the same router wait behind a request that is held,
        without being asked about: ``"all"``, or those of its ``"tenant"`` or
        ``"session"``. None: each request is asked about, whatever is held, and a
        quota of one tenant holds no other. A request without a tenant or session
        blocks none by it.

    Notes
    -----
    Gateways with one queue for all, first come, first served, block all: Dynamo's
    router queue, and llm-d's flow control with ``global-strict`` fairness. With a
    queue for each flow (``round-robin`` fairness, by tenant), llm-d blocks a tenant.

    Examples
    --------
    >>> from paceline.policy import first_of, inst, pick
    >>> first_of(pick(min=inst.requests, where=inst.waiting == 0), hold())
    first_of(pick(min=inst.requests, where=inst.waiting == 0), hold())
    >>> first_of(pick(min=inst.requests, where=inst.waiting == 0), hold(blocks="tenant"))
    first_of(pick(min=inst.requests, where=inst.waiting == 0), hold(blocks='tenant'))
    """
    return Hold(blocks=blocks)


@typed(PolicyError)
def reject(*, when: Operand | None = None) -> Reject:
    """Reject an arriving request; its status is ``rejected``, for a reason of the policy.

    Parameters
    ----------
    when
        Only if this holds; None: always. It may read the request, and instances
        by aggregates such as ``cluster.min(inst.waiting)``.

    Examples
    --------
    >>> from paceline import cluster, inst
    >>> reject(when=cluster.min(inst.waiting) > 20)
    reject(when=cluster.min(inst.waiting) > 20)
    """
    if when is None:
        return Reject()
    expression = lift(when)
    if expression.kind != "truth":
        raise PolicyError(f"when of reject() must be a condition, was {expression!r}")
    return Reject(condition=expression)

"""The places of an expression in a policy, and which fields it may read in each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from paceline.errors import PolicyError
from paceline.policy.expressions.accumulated import Accumulated
from paceline.policy.expressions.fields import meaning_of
from paceline.policy.expressions.kinds import named
from paceline.policy.expressions.syntax import COMPARISONS
from paceline.policy.expressions.tree import Const, Expr, Field, Op, Over, lift

__all__ = ["Scope", "condition", "drifting", "number"]


@dataclass(frozen=True, slots=True)
class _Visible:
    spaces: frozenset[str]
    cluster: bool
    there: str


def _visible(*spaces: str, cluster: bool = True, there: str) -> _Visible:
    return _Visible(frozenset((*spaces, "slo")), cluster, there)


class Scope(Enum):
    """The places of an expression, and the namespaces that can be read in each."""

    QUEUE = _visible("req", "oracle", cluster=False, there="a queue ranks requests: use req and oracle")
    EVICTION = _visible(
        "req",
        "oracle",
        "block",
        cluster=False,
        there="a block is evicted by what is known of it: use block, and req, the request that freed it last",
    )
    DISPLACE = _visible("inst", cluster=False, there="displacement depends on the instance alone: use inst")
    STEP = _visible("inst", cluster=False, there="a step depends on its instance alone: use inst")
    ARRIVAL = _visible(
        "req", "oracle", "inst", there="a request that arrives is on no instance yet: use inst, the candidate"
    )
    MOVE = _visible(
        "req",
        "oracle",
        "inst",
        "inst.here",
        there="no instance is picked yet: inst is the candidate, inst.here the present",
    )
    STAY = _visible(
        "req",
        "oracle",
        "inst.here",
        there="staying has no candidate: use inst.here, the present instance",
    )
    PICKED = _visible(
        "req", "oracle", "inst.here", "inst.there",
        there="the choice is made: use inst.here, the present instance, and inst.there, the one picked",
    )  # fmt: skip
    PICKED_ON_ARRIVAL = _visible(
        "req",
        "oracle",
        "inst.there",
        there="the choice is made, and there is no present instance: use inst.there, the one picked",
    )
    ASKED = _visible(
        "req", "oracle", there="no instance is considered yet: use cluster, and req, the request"
    )
    ASKED_ON_MOVE = _visible(
        "req",
        "oracle",
        "inst.here",
        there="no instance is considered yet: use cluster, req, and inst.here, the present instance",
    )
    ASKED_BY_MONITOR = _visible(there="a monitor has no request, and no instance is considered: use cluster")
    LEAVING = _visible(
        "inst", cluster=False, there="an instance leaves its pool by its own state: use inst, the instance"
    )
    REJECT = _visible(
        "req",
        "oracle",
        there="no instance is under consideration: use req, or cluster.min(...) and its like over inst",
    )
    MONITOR = _visible("inst", there="a monitor reads instances alone: use inst, the candidate")
    MONITOR_PAIR = _visible(
        "inst.here",
        "inst.there",
        there="the pair is found: use inst.here, the source, and inst.there, the target",
    )

    @property
    def visible(self) -> _Visible:
        """The namespaces that can be read there."""
        return self.value


_OF_INSTANCE = (Scope.DISPLACE, Scope.STEP)
_OF_MONITOR = (Scope.MONITOR, Scope.ASKED_BY_MONITOR, Scope.MONITOR_PAIR)


def number(value: object, what: str, scope: Scope) -> Expr:
    """Check that a value is a number that can be computed in a scope; ``what`` names it in errors."""
    expression = lift(value)
    if expression.kind != "number":
        raise PolicyError(f"{what} must be a number, was {expression!r} ({named(expression.kind)})")
    return _seen(expression, what, scope)


def condition(value: object, what: str, scope: Scope) -> Expr:
    """Check that a value is a condition that can be computed in a scope; ``what`` names it in errors."""
    expression = lift(value)
    if expression.kind != "truth":
        raise PolicyError(f"{what} must be a condition, was {expression!r} ({named(expression.kind)})")
    return _seen(expression, what, scope)


def _seen(expression: Expr, what: str, scope: Scope) -> Expr:
    visible = scope.visible
    inside: set[int] = set()
    for part in expression.walk():
        if isinstance(part, Over):
            if not visible.cluster:
                raise PolicyError(f"{what} must not read the cluster; {visible.there}; was {part!r}")
            inside.update(id(field) for field in part.walk())
        if isinstance(part, Accumulated) and scope is not Scope.QUEUE:
            raise PolicyError(
                f"{what} must not read {part!r}: the scheduler of an instance keeps it for its order"
            )
        if not isinstance(part, Field):
            continue
        if (part.space, part.name) == ("req", "cached_tokens") and not (
            scope is Scope.QUEUE and expression.kind == "number"
        ):
            raise PolicyError(
                f"{what} must not read {part!r}: it is looked up as a step is formed, for the keys of an "
                "order; a router reads inst.prefix_tokens(req)"
            )
        if scope in _OF_INSTANCE and meaning_of(part.space, part.name).source == "kept":
            raise PolicyError(f"{what} must not read {part!r}: a router keeps it, and no instance has it")
        if part.name == "gauge" and scope not in _OF_MONITOR:
            raise PolicyError(f"{what} must not read {part!r}: only the actions of monitors see gauges")
        request = "req" if meaning_of(part.space, part.name).takes == "request" else part.space
        for space in (part.space, request):
            if scope in _OF_INSTANCE and part.name == "role":
                raise PolicyError(f"{what} must not read {part!r}: only routing knows pools")
            # The argument of cluster.mean(...) is computed for each instance, which is inst there.
            if space not in visible.spaces and not (space == "inst" and id(part) in inside):
                raise PolicyError(f"{what} must not read {part!r}; {visible.there}")
    return expression


def drifting(expression: Expr) -> Field | None:
    """Return a field that makes an expression change from step to step, or None.

    A comparison, a whole division by a constant and `ilog2` change at moments that
    can be computed ahead, whatever is inside them.
    """
    if isinstance(expression, Field):
        return expression if meaning_of(expression.space, expression.name).drifts else None
    if isinstance(expression, Op):
        constant = isinstance(expression.args[-1], Const) or (
            isinstance(expression.args[-1], Field) and expression.args[-1].space == "slo"
        )
        if expression.op in COMPARISONS or expression.op == "ilog2":
            return None
        if expression.op == "floordiv" and constant:
            return None
    return next((field for part in expression.parts if (field := drifting(part)) is not None), None)

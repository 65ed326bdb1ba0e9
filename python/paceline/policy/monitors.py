"""What is done every so often, whoever arrives or not."""

from __future__ import annotations

from dataclasses import dataclass

from paceline._arguments import typed, typed_fields
from paceline.errors import PolicyError
from paceline.policy.checks import whole
from paceline.policy.expressions.scope import Scope, condition
from paceline.policy.expressions.tree import Expr, Operand, lift
from paceline.policy.rules import Pick
from paceline.policy.value import Value, shown

__all__ = ["Live", "Migrate", "migrate"]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Live(Value):
    """Copy a request's memory while it goes on running, in stages, each of what came since.

    Parameters
    ----------
    stages
        Stages at most, the last of which stops the request.
    last_blocks
        Blocks that are few enough to be left for that stage.

    Examples
    --------
    >>> Live(stages=3, last_blocks=16)
    Live(stages=3, last_blocks=16)
    """

    stages: int
    last_blocks: int

    def __post_init__(self) -> None:
        whole("stages of Live", self.stages)
        whole("last_blocks of Live", self.last_blocks, least=0)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Migrate(Value):
    """Move requests between instances, one a pair. Made by `migrate`."""

    source: Pick
    target: Pick
    choose: Pick
    when: Expr | None = None
    live: Live | None = None

    def __repr__(self) -> str:
        named = [f"{name}={shown(getattr(self, name))}" for name in ("source", "target", "choose")]
        named += [f"{n}={shown(getattr(self, n))}" for n in ("when", "live") if getattr(self, n) is not None]
        return f"migrate({', '.join(named)})"


@typed(PolicyError)
def migrate(
    *, source: Pick, target: Pick, choose: Pick, when: Operand | None = None, live: Live | None = None
) -> Migrate:
    """Move requests between instances that are paired, one a pair.

    All instances that `source` may pick are put in its order, and likewise those
    of `target`. The first of the ones is paired with the first of the others, the
    second with the second, as long as there are both; an instance is not paired
    with itself. Each pair moves one request.

    Parameters
    ----------
    source, target
        Which instances give, and which take: rules over `inst`.
    choose
        Which of a source's running requests goes: a rule over `req`.
    when
        What must hold of a pair, `inst.here` the source and `inst.there` the
        target; None: nothing.
    live
        How the memory is copied while the request runs; None: it stops first.

    Raises
    ------
    PolicyError
        If a part is no pick(), has an `accept`, or looks at what it cannot see;
        if `choose` has a `within`.

    Examples
    --------
    >>> from paceline import inst, req
    >>> from paceline.policy import pick
    >>> move = migrate(source=pick(max=inst.kv_usage), target=pick(min=inst.kv_usage),
    ...     choose=pick(min=req.context_tokens), when=inst.here.kv_usage > inst.there.kv_usage + 0.2)
    >>> move.choose
    pick(min=req.context_tokens)
    """
    for name, rule, scope in (
        ("source", source, Scope.MONITOR),
        ("target", target, Scope.MONITOR),
        ("choose", choose, Scope.QUEUE),
    ):
        if not isinstance(rule, Pick):
            raise PolicyError(f"{name} of migrate() must be a pick(), was {rule!r}")
        if rule.accept is not None:
            raise PolicyError(f"{name} of migrate() must be a pick() without accept, was {rule!r}")
        if name == "choose" and rule.within is not None:
            raise PolicyError(f"choose of migrate() must be a pick() without within, was {rule!r}")
        rule.checked(f"{name} of migrate()", scope)
    if live is not None and not isinstance(live, Live):
        raise PolicyError(f"live of migrate() must be a Live(), was {live!r}")
    met = None if when is None else condition(lift(when), "when of migrate()", Scope.MONITOR_PAIR)
    return Migrate(source=source, target=target, choose=choose, when=met, live=live)

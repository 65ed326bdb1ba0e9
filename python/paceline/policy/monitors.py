"""Monitors: actions at regular times, independent of arrivals."""

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
    """Copy a request's KV while it keeps running, in stages; each stage copies what the last one missed.

    Parameters
    ----------
    stages
        The most copies made while the request keeps running. What it has computed since the last one is
        transferred once it has left the batch.
    last_blocks
        Blocks left to copy at or below which the request leaves the batch.

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
    """Migrate requests between paired instances, one for each pair. Made by `migrate`."""

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
    """Migrate requests between paired instances, one for each pair.

    The instances that `source` may pick are sorted by its keys, and so are those
    of `target`. The first source is paired with the first target, the second with
    the second, until either list ends; an instance is not paired with itself. Each
    pair migrates one request.

    Parameters
    ----------
    source, target
        The instances that requests leave, and those that they migrate to: rules
        over `inst`.
    choose
        Which of a source's running requests migrates: a rule over `req`.
    when
        A condition on a pair, `inst.here` the source and `inst.there` the target;
        None: every pair migrates a request.
    live
        How the KV is copied while the request runs; None: the request stops first.

    Raises
    ------
    PolicyError
        If a part is no pick(), has an `accept`, `ties` or `among`, or reads a field that it cannot
        see; if `choose` has a `within`.

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
        if rule.ties != "first" or rule.among is not None:
            raise PolicyError(
                f"{name} of migrate() must be a pick() without ties and among, as it sorts all, was {rule!r}"
            )
        if name == "choose" and rule.within is not None:
            raise PolicyError(f"choose of migrate() must be a pick() without within, was {rule!r}")
        rule.checked(f"{name} of migrate()", scope)
    if live is not None and not isinstance(live, Live):
        raise PolicyError(f"live of migrate() must be a Live(), was {live!r}")
    met = None if when is None else condition(lift(when), "when of migrate()", Scope.MONITOR_PAIR)
    return Migrate(source=source, target=target, choose=choose, when=met, live=live)

"""The wire format of a policy's rules and monitors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from paceline.policy.expressions.tree import Const, Expr, Field, Op
from paceline.policy.expressions.wire import Names, to_wire
from paceline.policy.monitors import Migrate
from paceline.policy.rules import FirstOf, Pick, PromptOwner, Stay, Unless, each

__all__ = ["MOMENTS", "Monitors", "Rules", "check_names", "expressions_in", "routing_to_wire"]

MOMENTS = ("on_arrival", "decode_on_arrival", "on_prefilled", "on_answering")
"""The moments at which a request is routed, by the names of a policy's rules."""

Rules = Mapping[str, object]
"""The rule of each of `MOMENTS`, None where there is none."""

Monitors = Sequence[tuple[float, Sequence[Migrate]]]
"""Pairs of a period in seconds and the actions taken at each end of it."""


def expressions_in(rules: Rules, monitors: Monitors) -> Iterator[Expr]:
    """Yield each expression of a policy's rules and monitors."""
    for moment in MOMENTS:
        for rule in each(rules[moment]):
            if isinstance(rule, Pick):
                yield from _of_pick(rule)
            elif isinstance(rule, Unless | Stay) and rule.when is not None:
                yield rule.when
    for _, actions in monitors:
        for action in actions:
            for pick in (action.source, action.target, action.choose):
                yield from _of_pick(pick)
            if action.when is not None:
                yield action.when


def _of_pick(rule: Pick) -> Iterator[Expr]:
    yield from rule.keys
    yield from (part for part in (rule.where, rule.accept) if part is not None)


def check_names(expressions: Iterable[Expr], rules: Rules, monitors: Monitors, names: Names) -> None:
    """Refuse pools, classes and objectives that are not among `names`; tenants are the trace's.

    Raises
    ------
    PolicyError
        Names what is unknown, and what is known.
    """
    for expression in expressions:
        to_wire(_without_tenants(expression), names)
    for moment in MOMENTS:
        for rule in each(rules[moment]):
            if isinstance(rule, Pick):
                names.pool_codes(rule.within)
    for _, actions in monitors:
        for action in actions:
            for side in (action.source, action.target):
                names.pool_codes(side.within)


def _without_tenants(expression: Expr) -> Expr:
    if isinstance(expression, Op):
        first = expression.args[0]
        if isinstance(first, Field) and first.kind == "tenant":
            return Const(True)
        return Op(expression.op, tuple(_without_tenants(arg) for arg in expression.args))
    return expression


def routing_to_wire(rules: Rules, monitors: Monitors, names: Names, ticks_per_s: float) -> dict[str, Any]:
    """Return rules and monitors as the engine reads them; Python functions are numbered in order."""
    numbers = count()
    wire: dict[str, Any] = {}
    for moment in MOMENTS:
        rule = rules[moment]
        wire[moment] = None if rule is None else _rule(rule, names, lambda: next(numbers))
    wire["every"] = [
        {"period": round(seconds * ticks_per_s), "actions": [_migrate(action, names) for action in actions]}
        for seconds, actions in monitors
    ]
    return wire


def _rule(rule: object, names: Names, call: Callable[[], int]) -> dict[str, Any]:
    match rule:
        case str():
            return {"rule": rule}
        case Pick():
            return {
                "rule": "pick",
                **_side(rule, names),
                "accept": _maybe(rule.accept, names),
                **_drawn(rule),
            }
        case FirstOf():
            return {"rule": "first_of", "rules": [_rule(part, names, call) for part in rule.rules]}
        case Unless():
            return {"rule": "unless", "of": _rule(rule.of, names, call), "when": to_wire(rule.when, names)}
        case Stay():
            return {"rule": "stay", "when": _maybe(rule.when, names)}
        case PromptOwner():
            return {"rule": "owner", "above": rule.above}
    return {"rule": "call", "index": call()}


def _drawn(rule: Pick) -> dict[str, Any]:
    """Return how a rule draws, if it does."""
    if rule.temperature is None:
        return {}
    return {"softmax": {"temperature": float(rule.temperature), "seed": rule.seed or 0}}


def _side(rule: Pick, names: Names) -> dict[str, Any]:
    return {**_best(rule, names), "within": names.pool_codes(rule.within)}


def _best(rule: Pick, names: Names) -> dict[str, Any]:
    return {"min": [to_wire(key, names) for key in rule.keys], "where": _maybe(rule.where, names)}


def _maybe(expression: Expr | None, names: Names) -> dict[str, Any] | None:
    return None if expression is None else to_wire(expression, names)


def _migrate(action: Migrate, names: Names) -> dict[str, Any]:
    live = action.live
    return {
        "action": "migrate",
        "source": _side(action.source, names),
        "target": _side(action.target, names),
        "choose": _best(action.choose, names),
        "when": _maybe(action.when, names),
        "live": None if live is None else {"stages": live.stages, "last_blocks": live.last_blocks},
    }

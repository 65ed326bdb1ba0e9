"""The wire format of a policy's rules and monitors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from paceline.errors import PolicyError
from paceline.policy.at_router import Hold, Reject
from paceline.policy.counting import Counting
from paceline.policy.expressions.accumulated import accumulators_in
from paceline.policy.expressions.tree import Const, Expr, Field, Op
from paceline.policy.expressions.wire import Names, to_wire
from paceline.policy.flips import Flip
from paceline.policy.gauges import Gauge
from paceline.policy.monitors import Migrate
from paceline.policy.rules import Affinity, FirstOf, Pick, PromptOwner, Stay, Unless, When, each
from paceline.policy.scaling import Scale

__all__ = [
    "MOMENTS",
    "Action",
    "Monitors",
    "Rules",
    "check_names",
    "expressions_in",
    "routing_to_wire",
    "rules_in",
]

MOMENTS = ("on_arrival", "decode_on_arrival", "on_prefilled", "on_answering")
"""The moments at which a request is routed, by the names of a policy's rules."""

Rules = Mapping[str, object]
"""The rule of each of `MOMENTS`, None where there is none."""

Action = Migrate | Scale | Gauge | Flip | When | FirstOf
"""What a monitor does: a `migrate`, a `scale`, a `gauge`, or a `flip` and what is made of it."""

Monitors = Sequence[tuple[float, Sequence[Action]]]
"""Pairs of a period in seconds and the actions taken at each end of it."""


def expressions_in(rules: Rules, monitors: Monitors) -> Iterator[Expr]:
    """Yield each expression of a policy's rules and monitors."""
    for rule in rules_in(rules, monitors):
        if isinstance(rule, Pick):
            yield from _of_pick(rule)
        elif isinstance(rule, Unless | When | Stay | Reject) and rule.condition is not None:
            yield rule.condition
    for _, actions in monitors:
        for action in actions:
            if isinstance(action, Scale):
                yield from (part for part in (action.wanted, action.when) if part is not None)
            if isinstance(action, Gauge):
                yield action.of
            if not isinstance(action, Migrate):
                continue
            for pick in (action.source, action.target, action.choose):
                yield from _of_pick(pick)
            if action.when is not None:
                yield action.when


def rules_in(rules: Rules, monitors: Monitors) -> Iterator[object]:
    """Yield each rule of a policy and each rule within it, those that flip in monitors last."""
    for moment in MOMENTS:
        yield from each(rules[moment])
    for _, actions in monitors:
        for action in actions:
            if isinstance(action, Scale):
                for flip in action.flips:
                    yield from each(flip)
            elif not isinstance(action, Migrate | Gauge):
                yield from each(action)


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
        known = dataclasses.replace(names, accumulators=accumulators_in(expression))
        to_wire(_without_tenants(expression), known)
    for rule in rules_in(rules, monitors):
        if isinstance(rule, Pick | Counting | Affinity | PromptOwner):
            names.pool_codes(rule.within)
        elif isinstance(rule, Flip):
            if "→" in rule.to and rule.to in names.pools:
                raise PolicyError(
                    f"to of flip() must be the pool that instances are to join, was {rule.to!r}"
                )
            names.code("role", rule.to)
    for _, actions in monitors:
        for action in actions:
            if isinstance(action, Gauge):
                names.pool_codes(action.within)
            if isinstance(action, Scale) and "→" in action.off:
                raise PolicyError(
                    f"off of scale() must be a pool that instances can join, was {action.off!r}"
                )
            if isinstance(action, Migrate):
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
        {
            "period": round(seconds * ticks_per_s),
            "actions": [_action(action, names, ticks_per_s) for action in actions],
        }
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
                **_choice(rule),
            }
        case Affinity():
            key = rule.key if rule.blocks is None else {rule.key: rule.blocks}
            return {"rule": "affinity", "key": key, "within": names.pool_codes(rule.within)}
        case Hold():
            return {"rule": "hold"} if rule.blocks is None else {"rule": "hold", "blocks": rule.blocks}
        case Reject():
            return {"rule": "reject", "when": _maybe(rule.condition, names)}
        case FirstOf():
            return {"rule": "first_of", "rules": [_rule(part, names, call) for part in rule.rules]}
        case Unless():
            when = to_wire(rule.condition, names)
            return {"rule": "unless", "of": _rule(rule.of, names, call), "when": when}
        case When():
            when = to_wire(rule.condition, names)
            return {"rule": "when", "of": _rule(rule.of, names, call), "when": when}
        case Flip():
            to = names.code("role", rule.to)
            wire = {"rule": "flip", "of": _rule(rule.of, names, call), "to": to, "keep": rule.keep}
            return wire if rule.picks else {**wire, "picks": False}
        case Counting():
            return {"rule": rule.name, "within": names.pool_codes(rule.within)}
        case Stay():
            return {"rule": "stay", "when": _maybe(rule.condition, names)}
        case PromptOwner():
            return {"rule": "owner", "above": rule.above, "within": names.pool_codes(rule.within)}
    return {"rule": "call", "index": call()}


def _choice(rule: Pick) -> dict[str, Any]:
    """Return how a pick breaks ties and draws, as far as that is not the default."""
    choice: dict[str, Any] = {} if rule.ties == "first" else {"ties": rule.ties}
    if rule.among is not None:
        choice["among"] = rule.among
    if rule.temperature is not None:
        choice["softmax"] = {"temperature": float(rule.temperature), "seed": rule.seed or 0}
    return choice


def _side(rule: Pick, names: Names) -> dict[str, Any]:
    return {**_best(rule, names), "within": names.pool_codes(rule.within)}


def _best(rule: Pick, names: Names) -> dict[str, Any]:
    return {"min": [to_wire(key, names) for key in rule.keys], "where": _maybe(rule.where, names)}


def _maybe(expression: Expr | None, names: Names) -> dict[str, Any] | None:
    return None if expression is None else to_wire(expression, names)


def _scale(action: Scale, names: Names, ticks_per_s: float) -> dict[str, Any]:
    return {
        "action": "scale",
        "pool": names.code("role", action.pool),
        "off": names.code("role", action.off),
        "wanted": to_wire(action.wanted, names),
        "when": _maybe(action.when, names),
        "least": action.least,
        "most": action.most,
        "averaged": round(action.averaged_s * ticks_per_s),
        "up": action.up.to_wire(ticks_per_s),
        "down": action.down.to_wire(ticks_per_s),
        "start": _best(action.start, names),
        "stop": _best(action.stop, names),
    }


def _action(action: Action, names: Names, ticks_per_s: float) -> dict[str, Any]:
    if isinstance(action, Scale):
        return _scale(action, names, ticks_per_s)
    if isinstance(action, Gauge):
        return action.to_wire(names, ticks_per_s)
    if not isinstance(action, Migrate):
        return {"action": "flip", "rule": _rule(action, names, lambda: 0)}
    live = action.live
    return {
        "action": "migrate",
        "source": _side(action.source, names),
        "target": _side(action.target, names),
        "choose": _best(action.choose, names),
        "when": _maybe(action.when, names),
        "live": None if live is None else {"stages": live.stages, "last_blocks": live.last_blocks},
    }

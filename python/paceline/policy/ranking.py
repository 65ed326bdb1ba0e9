"""An order that ranks requests: its keys by class, and its wire format."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from paceline.errors import PolicyError
from paceline.policy.expressions.accumulated import Accumulated, accumulators_in
from paceline.policy.expressions.namespaces import oracle, req
from paceline.policy.expressions.tree import Expr, Field
from paceline.policy.expressions.wire import Names
from paceline.policy.expressions.wire import to_wire as expression_to_wire
from paceline.policy.queues import Class, Levels, Quantum, Refresh, keys_of, refuse_drift

__all__ = ["accumulators_of", "keys_in", "levels_of", "quantum_of", "reads_cached", "to_wire"]

_NAMED: dict[str, tuple[Expr, ...]] = {
    "arrival": (),  # the engine ranks requests with equal keys by arrival
    "priority": (req.priority,),
    "highest_priority": (-req.priority,),
    "priority_then_longest_output": (req.priority, -oracle.output_tokens),
    "highest_priority_then_longest_output": (-req.priority, -oracle.output_tokens),
    "score": (req.score,),
    "longest_output": (-oracle.output_tokens,),
}
"""The keys that names of orders stand for."""


def keys_in(
    order: Any,  # noqa: ANN401
    classes: Sequence[Class],
    refresh: Refresh | None,
) -> list[tuple[Class | None, tuple[Expr, ...]]]:
    """Return each class with its keys; None with keys comes last, for requests that are in no class.

    Raises
    ------
    PolicyError
        If a key drifts and there is no refresh.
    """
    rest: list[Class | None] = [] if classes and classes[-1].when is None else [None]
    several = []
    for each in [*classes, *rest]:
        own = None if each is None else each.order
        what = "order" if each is None or own is None else f"order of Class {each.name!r}"
        chosen = order if own is None else own
        keys = _NAMED[chosen] if isinstance(chosen, str) else keys_of(chosen, what)
        refuse_drift(keys, what, refresh)
        _check_looked_up(keys, what, refresh)
        several.append((each, keys))
    return several


def reads_cached(keys: Sequence[Expr]) -> bool:
    """Whether keys read what the prefix cache has of a prompt."""
    return any(req.cached_tokens.same(part) for key in keys for part in key.walk())


def _check_looked_up(keys: Sequence[Expr], what: str, refresh: Refresh | None) -> None:
    """Refuse keys that read what the prefix cache has, where they are not evaluated for each step."""
    if reads_cached(keys) and (refresh is None or refresh.steps != 1):
        raise PolicyError(
            f"{what} reads req.cached_tokens, which changes with each step: refresh must be "
            f"Refresh(steps=1), was {refresh!r}"
        )


def quantum_of(order: Any, classes: Sequence[Class]) -> int:  # noqa: ANN401
    """Return the tokens of a quantum; 0 where there is none.

    Raises
    ------
    PolicyError
        If classes have different quanta, which the engine does not support.
    """
    orders = [order, *(each.order for each in classes)]
    sizes = {each.tokens for each in orders if isinstance(each, Quantum)}
    if len(sizes) > 1:
        raise PolicyError(f"classes must have the same Quantum, were {sorted(sizes)} tokens")
    asked = _given([*orders, *(each.when for each in classes)])
    if not sizes and any(req.quanta.same(part) for expression in asked for part in expression.walk()):
        raise PolicyError("req.quanta needs a Quantum somewhere in the order: order=Quantum(500)")
    return next(iter(sizes), 0)


def levels_of(order: Any, classes: Sequence[Class]) -> Levels | None:  # noqa: ANN401
    """Return the levels of an order, if it has any.

    Raises
    ------
    PolicyError
        If classes have different levels, which the engine does not support.
    """
    orders = [order, *(each.order for each in classes)]
    found = [each for each in orders if isinstance(each, Levels)]
    if any(each != found[0] for each in found):
        raise PolicyError(f"classes must have the same Levels, were {found!r}")
    asked = _given([*orders, *(each.when for each in classes)])
    if not found and any(req.level.same(part) for expression in asked for part in expression.walk()):
        raise PolicyError("req.level needs Levels somewhere in the order: order=Levels(0.01)")
    return found[0] if found else None


MOST_ACCUMULATORS = 4
"""The most different accumulators that a scheduler may read."""


def accumulators_of(
    order: Any,  # noqa: ANN401
    classes: Sequence[Class],
    refresh: Refresh | None,
    admits: Expr | None,
) -> list[Accumulated]:
    """Return the accumulators that keys and admissions read.

    Raises
    ------
    PolicyError
        If anything else reads one, or a key reads a field of the request beside it.
    """
    keys = [key for _, several in keys_in(order, classes, refresh) for key in several]
    levels = levels_of(order, classes)
    others = [each.when for each in classes] + ([] if levels is None else [levels.entry, levels.promote])
    for other in others:
        if isinstance(other, Expr) and accumulators_in(other):
            raise PolicyError(f"accumulators must be read by keys and by admits only, was {other!r}")
    for key in keys:
        fields = [part for part in key.walk() if isinstance(part, Field) and part.space != "slo"]
        if accumulators_in(key) and fields:
            raise PolicyError(
                "a key that reads an accumulator must read no field of the request, as a group has one value "
                f"of it: make {fields[0]!r} a key of its own; was {key!r}"
            )
    found = accumulators_in(*keys)
    if admits is not None:
        fields = [part for part in admits.walk() if isinstance(part, Field) and part.space != "slo"]
        read = accumulators_in(admits)
        if fields or not read:
            raise PolicyError(f"admits must be a condition on accumulators alone, was {admits!r}")
        if any(each.half_life is not None for each in read):
            raise PolicyError(
                "admits must not read an accumulator with a half_life, as no event would admit then; "
                f"was {admits!r}"
            )
        found = accumulators_in(*keys, admits)
    if len(found) > MOST_ACCUMULATORS:
        raise PolicyError(
            f"a scheduler must read at most {MOST_ACCUMULATORS} accumulators, were {len(found)}"
        )
    return found


def _given(orders: Sequence[Any]) -> list[Expr]:
    several = (each if isinstance(each, tuple) else (each,) for each in orders)
    return [key for keys in several for key in keys if isinstance(key, Expr)]


def to_wire(
    order: Any,  # noqa: ANN401
    classes: Sequence[Class],
    refresh: Refresh | None,
    names: Names,
    ticks_per_s: float,
    admits: Expr | None = None,
) -> dict[str, object]:
    """Return the order as the engine reads it."""
    ranked = []
    accumulators = accumulators_of(order, classes, refresh, admits)
    names = dataclasses.replace(names, accumulators=accumulators)
    levels = levels_of(order, classes)
    for each, keys in keys_in(order, classes, refresh):
        when = each.when if each is not None and isinstance(each.when, Expr) else None
        ranked.append(
            {
                "when": None if when is None else expression_to_wire(when, names),
                "hold": 0 if each is None else each.hold,
                "hold_steps": 0 if each is None else each.hold_steps,
                "keys": [expression_to_wire(key, names) for key in keys],
            }
        )
    kept = {
        "accumulators": [each.to_wire(tuple(names.tenants), ticks_per_s) for each in accumulators],
        "admits": None if admits is None else expression_to_wire(admits, names),
    }
    return {
        **(kept if accumulators else {}),
        "kind": "ranked",
        "classes": ranked,
        "quantum": quantum_of(order, classes),
        "levels": None if levels is None else levels.to_wire(names, ticks_per_s),
        "refresh": {"steps": 0, "ticks": 0} if refresh is None else refresh.to_wire(ticks_per_s),
    }

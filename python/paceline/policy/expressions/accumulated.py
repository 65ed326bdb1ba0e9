"""Accumulators: numbers that a scheduler keeps by tenant, by session or for all requests, in expressions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from paceline._arguments import typed
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.expressions.kinds import Kind
from paceline.policy.expressions.syntax import TIGHT, Written
from paceline.policy.expressions.tree import Expr

__all__ = ["UNITS", "Accumulated", "Charged", "Grouping", "Lift", "accumulated", "accumulators_in"]

UNITS = 2**20
"""Units in one: the engine charges whole numbers of them, so that sums do not depend on their order."""

_MOST = 2.0**20

Grouping = Literal["tenant", "session", "all"]
"""Which requests have one number together: those of a tenant, of a session, or all.

Requests without a tenant are one group; a request without a session is a group by itself.
"""

Charged = Literal["served", "computed", "finished"]
"""Which tokens are charged, and when.

``served``: the prompt at the first admission, and each token of the output as it appears.
``computed``: at each admission without KV the tokens that it computes, so without cached ones, and with
those that a preemption lost; and each token of the output.
``finished``: prompt and output as the request finishes.
"""

Lift = Literal["none", "waiting", "waiting_or_last"]
"""To what a number rises, at least, as a request comes to the queue in which its group has no other.

``waiting``: the smallest number of the other groups with waiting requests, if there are any.
``waiting_or_last``: the same; if no request waits, the number of the group whose request left the queue last.
"""


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Accumulated(Expr):
    """The number of a request's group in an accumulator; see `accumulated`."""

    by: Grouping
    prompt: float
    output: float
    request: float
    running: float
    when: Charged
    weights: tuple[tuple[str, float], ...]
    lift: Lift
    quantum: float
    half_life: float | None

    @property
    def kind(self) -> Kind:
        """The kind of the expression's value."""
        return "number"

    @property
    def key(self) -> tuple[object, ...]:
        """Plain values that are equal if the expressions are."""
        return ("accumulated", self.by, *(part for _, part in self._settings), self.weights)

    @property
    def written(self) -> Written:
        """A call of `accumulated`."""
        given = [f"by={self.by!r}"]
        given += [f"{name}={value!r}" for name, value in self._settings if value != _DEFAULTS[name]]
        given += [f"weights={[list(pair) for pair in self.weights]!r}"] if self.weights else []
        return Written(f"accumulated({', '.join(given)})", TIGHT + 1)

    @property
    def _settings(self) -> list[tuple[str, float | str | None]]:
        return [(name, getattr(self, name)) for name in _DEFAULTS]

    def to_wire(self, tenants: tuple[str, ...], ticks_per_s: float) -> dict[str, object]:
        """Return the accumulator as the engine reads it, without weights of tenants that the trace lacks."""

        def units(charge: float, weight: float = 1.0) -> int:
            return round(charge / weight * UNITS)

        return {
            "by": self.by,
            "charges": {
                "prompt": units(self.prompt),
                "output": units(self.output),
                "request": units(self.request),
                "running": units(self.running),
                "when": self.when,
            },
            "groups": [
                {
                    "code": tenants.index(name),
                    "prompt": units(self.prompt, weight),
                    "output": units(self.output, weight),
                }
                for name, weight in self.weights
                if name in tenants
            ],
            "lift": self.lift,
            "quantum": units(self.quantum),
            "half_life": 0 if self.half_life is None else round(self.half_life * ticks_per_s),
        }


_DEFAULTS: dict[str, float | str | None] = {
    "prompt": 0.0,
    "output": 0.0,
    "request": 0.0,
    "running": 0.0,
    "when": "served",
    "lift": "none",
    "quantum": 0.0,
    "half_life": None,
}


@typed(PolicyError)
def accumulated(
    *,
    by: Grouping = "tenant",
    prompt: float = 0.0,
    output: float = 0.0,
    request: float = 0.0,
    running: float = 0.0,
    when: Charged = "served",
    weights: Any = (),  # noqa: ANN401 - numbers by tenant, or pairs, checked below
    lift: Lift = "none",
    quantum: float = 0.0,
    half_life: float | None = None,
) -> Expr:
    """Return the number that an instance's scheduler has accumulated for a request's group.

    A number starts at 0 and is charged with what happens to the group's requests on
    the instance. Keys of an order may read it, and the ``admits`` of a `Scheduler`.
    Two of the same settings are one accumulator.

    Parameters
    ----------
    by
        Which requests are a group, see `Grouping`.
    prompt, output
        Charged for each token of a prompt, and of an output; may be negative.
    request
        Charged for a request as it is admitted for the first time.
    running
        Charged while a request is in the batch, and taken back as it leaves.
    when
        Which tokens count, and when they are charged, see `Charged`.
    weights
        Shares of tenants, numbers by name: what a tenant is charged for tokens is divided by
        its weight; 1 where none is given.
    lift
        How a number rises after its group was idle, see `Lift`.
    quantum
        Added to each number of at most 0, again and again, when a seat is free and no
        waiting request may be admitted, until one may.
    half_life
        Seconds in which a number falls to its half; None: it does not fall.

    Returns
    -------
    Expr
        A number. Charges are rounded to 2**-20.

    Raises
    ------
    PolicyError
        If a setting is out of its range.

    Examples
    --------
    >>> accumulated(by="tenant", prompt=1, output=2, lift="waiting")
    accumulated(by='tenant', prompt=1.0, output=2.0, lift='waiting')
    """
    for name, value in (("prompt", prompt), ("output", output), ("request", request), ("running", running)):
        if not abs(value) <= _MOST:
            raise PolicyError(f"{name} of accumulated() must be -2**20 to 2**20, was {said(value)}")
    if not 0 <= quantum <= _MOST:
        raise PolicyError(f"quantum of accumulated() must be 0 to 2**20, was {said(quantum)}")
    if half_life is not None and not 1e-9 <= half_life <= 1e7:
        raise PolicyError(f"half_life of accumulated() must be 1e-9 to 1e7 s, was {said(half_life)}")
    if half_life is not None and (quantum or running):
        raise PolicyError(
            "accumulated() must have no quantum and no running charge together with a half_life"
        )
    return Accumulated(
        by=by,
        prompt=float(prompt),
        output=float(output),
        request=float(request),
        running=float(running),
        when=when,
        weights=_weights(weights, by, prompt, output),
        lift=lift,
        quantum=float(quantum),
        half_life=None if half_life is None else float(half_life),
    )


def _weights(given: object, by: Grouping, prompt: float, output: float) -> tuple[tuple[str, float], ...]:
    pairs = given.items() if isinstance(given, Mapping) else given
    if not isinstance(pairs, tuple | list) and not isinstance(given, Mapping):
        raise PolicyError(f"weights of accumulated() must be numbers by tenant, was {said(given)}")
    found = {}
    for pair in pairs:  # type: ignore[attr-defined]  # pairs of a mapping, or a list, by the lines above
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise PolicyError(f"weights of accumulated() must be numbers by tenant, had {said(pair)}")
        name, weight = pair
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            raise PolicyError(f"weight of {name!r} must be a finite number above 0, was {said(weight)}")
        if max(abs(prompt), abs(output)) / weight > _MOST:
            raise PolicyError(
                f"charges divided by the weight of {name!r} must be at most 2**20, was {said(weight)}"
            )
        found[name] = float(weight)
    if found and by != "tenant":
        raise PolicyError(f"weights of accumulated() are of tenants: by must be 'tenant', was {by!r}")
    return tuple(sorted(found.items()))


def accumulators_in(*expressions: Expr) -> list[Accumulated]:
    """Return the different accumulators that expressions read, in the order in which they read them."""
    found: dict[tuple[object, ...], Accumulated] = {}
    for expression in expressions:
        for part in expression.walk():
            if isinstance(part, Accumulated):
                found.setdefault(part.key, part)
    return list(found.values())

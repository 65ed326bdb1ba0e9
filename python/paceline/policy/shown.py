"""The fields that a router written in Python can read, by their names in expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from paceline import _core
from paceline.policy.expressions.fields import FIELDS

__all__ = ["Shown", "ShownRequest", "showing"]

_PHASES = ("prefill", "reasoning", "answering")


def _names(space: str, wires: Sequence[str]) -> dict[str, str]:
    """Return the fields of a space that the engine shows to a router, by name, with the engine's names."""
    return {
        name: meaning.wire for (of, name), meaning in FIELDS.items() if of == space and meaning.wire in wires
    }


class Shown:
    """An instance as a rule reads it when it decides (docs/reference/policy-semantics.md says as of when).

    It has the fields of `inst` as numbers, but for `requests_in`, `waiting_blocks`,
    `head_blocks`, `context_blocks`, `block_tokens`, `index_blocks`, `index_tokens`, `active_blocks`,
    `active_new_blocks`, `active_prefill_tokens` and `gauge`; `fits`, `prefill_time` and `prefix_tokens`
    are those of the request that is routed. `index` is its place in the cluster.
    """

    __slots__ = ("_fields", "_seen", "index")

    def __init__(self, seen: _core.InstanceSight, fields: dict[str, str]) -> None:
        self._seen, self._fields, self.index = seen, fields, seen.index

    def __getattr__(self, name: str) -> float:
        """Return a field."""
        return self._seen.value(_wire(self._fields, name, "an instance"))

    def __dir__(self) -> list[str]:
        """List the fields."""
        return [*self._fields, "index"]


class ShownRequest:
    """The request that is routed.

    It has the fields of `req` as numbers (`phase` as one of ``"prefill"``,
    ``"reasoning"`` and ``"answering"``), but for `blocks`, `cached_tokens`, `column`,
    `idle_steps`, `joined`, `waiting_time`, `prefill_time` and `running`; `row`, its row in the trace; and
    `here`, the index of the instance that it is on, None for one that arrives.
    """

    __slots__ = ("_fields", "_seen", "here", "row")

    def __init__(self, seen: _core.RequestSight, fields: dict[str, str]) -> None:
        self._seen, self._fields, self.row, self.here = seen, fields, seen.row, seen.here

    @property
    def phase(self) -> str:
        """The phase of the request."""
        return _PHASES[int(self._seen.value("phase"))]

    def __getattr__(self, name: str) -> float:
        """Return a field."""
        return self._seen.value(_wire(self._fields, name, "a request"))

    def __dir__(self) -> list[str]:
        """List the fields."""
        return [*self._fields, "row", "here"]


def _wire(fields: dict[str, str], name: str, of: str) -> str:
    try:
        return fields[name]
    except KeyError:
        raise AttributeError(f"{of} has no {name!r}; it has {', '.join(fields)}") from None


def showing(
    router: Callable[[Any, Any], int | None],
) -> Callable[[_core.RequestSight, list[_core.InstanceSight]], int | None]:
    """Wrap a router so that the engine can call it.

    Parameters
    ----------
    router
        Called for each decision with a `ShownRequest` and a list with a `Shown` for
        each instance; returns the index of an instance, or None: the request stays.

    Returns
    -------
    callable
        The function that the engine calls.
    """
    of_request = _names("req", _core.SEEN_OF_REQUEST)
    of_instance = _names("inst", _core.SEEN_OF_INSTANCE)

    def call(request: _core.RequestSight, instances: list[_core.InstanceSight]) -> int | None:
        return router(ShownRequest(request, of_request), [Shown(seen, of_instance) for seen in instances])

    return call

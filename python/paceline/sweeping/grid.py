"""The grid of a sweep: a run, and the values that its fields take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from paceline import _check, _toml
from paceline._arguments import typed_fields
from paceline.deployment import Cluster
from paceline.errors import ConfigError
from paceline.objectives import SLO
from paceline.policy import Policy
from paceline.runs import Recipe, Settings
from paceline.runs.parts import included
from paceline.sweeping.point import Point
from paceline.sweeping.points import Points
from paceline.trace import Trace

__all__ = ["Grid"]

_PARTS: Final = ("trace", "cluster", "policy", "settings")
_SHORT: Final = {"rate": "trace.rate", "scale": "trace.scale", "seed": "trace.seed"}
_RESERVED: Final = frozenset({"id", "status", "error", "config"})


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(but=("trace", "cluster", "policy", "over"))
class Grid:
    """The points of a sweep: every combination of the values in `over`, applied to one run.

    Parameters
    ----------
    trace
        The requests: a `Trace`, a `Recipe` that reads or draws one, or a recipe's table.
    cluster
        The instances; a `Cluster` or its table.
    policy
        A `Policy`, its table, or the name of a preset; None: vLLM V1's scheduler.
    settings
        The other arguments of `replay`.
    over
        The axes: what varies, and a list of its values. An axis is ``"policy"``, ``"cluster"`` or
        ``"trace"`` for a whole part, whose values are as of the parameters above; ``"rate"``, ``"scale"`` or
        ``"seed"`` of the trace; or the path of a field, as ``"policy.scheduler.max_num_seqs"``,
        ``"cluster.instances.*.num_blocks"`` or ``"settings.until"``, with the names that the TOML files of
        clusters and policies have. The value None leaves a field out. A dictionary instead of a list names
        the values. Whole parts are replaced before fields are set. The last axis varies fastest.
    slo
        Bounds, for attainment and goodput.
    warmup_s
        Requests that arrive in the first so many seconds are replayed, but not judged: latencies,
        attainment and goodput leave them out. A row says how many they are.

    Raises
    ------
    ConfigError
        If an axis is unknown, empty or has a value twice, or a part cannot be written as TOML.

    Examples
    --------
    >>> import paceline
    >>> grid = paceline.Grid(
    ...     trace={"preset": "azure-conv", "requests": 50},
    ...     cluster=paceline.Cluster([paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")]),
    ...     over={"policy": ["vllm", "sarathi"], "rate": [1.0, 4.0], "seed": [1, 2, 3]},
    ... )
    >>> len(grid)
    12
    """

    trace: Trace | Recipe | Mapping[str, Any]
    cluster: Cluster | Mapping[str, Any]
    policy: Policy | Mapping[str, Any] | str | None = None
    settings: Settings = field(default_factory=Settings)
    over: Mapping[str, Sequence[Any] | Mapping[str, Any]] = field(default_factory=dict)
    slo: SLO | None = None
    warmup_s: float = 0.0
    folder: Path = field(default=Path(), repr=False)
    _traces: dict[str, Trace] = field(default_factory=dict, init=False, repr=False, compare=False)
    _base: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _axes: dict[str, dict[str, Any] | list[Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        _check.seconds("warmup_s of a Grid", self.warmup_s)
        if not isinstance(self.over, Mapping):
            raise ConfigError(f"over of a Grid must be a dictionary of axes, was {_check.said(self.over)}")
        policy = "vllm" if self.policy is None else self.policy
        for name, part in (("trace", self.trace), ("cluster", self.cluster), ("policy", policy)):
            self._base[name] = self._part(name, part)
        self._base["settings"] = self.settings.to_table()
        for axis, values in self.over.items():
            self._axes[axis] = self._axis(axis, values)

    @property
    def axes(self) -> dict[str, list[Any]]:
        """What varies, with the values that the rows of the dataset have for it: numbers, names or text."""
        return {axis: list(values) for axis, values in self._axes.items()}

    @property
    def traces(self) -> Mapping[str, Trace]:
        """The traces that were given as such, by their digest."""
        return self._traces

    def points(self) -> Sequence[Point]:
        """Return the points, the last axis fastest. Each is made when it is asked for."""
        types = {axis: _type_of(choices) for axis, choices in self._axes.items()}
        bounds = {} if self.slo is None else self.slo.bounds()
        return Points(
            [list(values) for values in self._axes.values()],
            lambda labels: self._point(dict(zip(self._axes, labels, strict=True)), types, bounds),
        )

    def uses(self) -> tuple[int, int]:
        """Return how many points have the same trace, before `rate` and `scale`, and after."""
        of_base, of_trace = 1, 1
        for axis, values in self._axes.items():
            path = _SHORT.get(axis, axis)
            if path.split(".")[0] != "trace":
                of_base, of_trace = of_base * len(values), of_trace * len(values)
            elif path in ("trace.rate", "trace.scale"):
                of_base *= len(values)
        return of_base, of_trace

    def __len__(self) -> int:
        """Return the number of points."""
        number = 1
        for values in self._axes.values():
            number *= len(values)
        return number

    def _point(self, labels: dict[str, Any], types: dict[str, str], bounds: dict[str, float]) -> Point:
        values = {
            axis: choices[labels[axis]] if isinstance(choices, dict) else labels[axis]
            for axis, choices in self._axes.items()
        }
        whole = {**self._base, **{axis: value for axis, value in values.items() if axis in _PARTS}}
        fields = {_SHORT.get(axis, axis): value for axis, value in values.items() if axis not in _PARTS}
        return Point(
            labels=labels,
            types=types,
            whole=whole,
            fields=fields,
            slo=bounds,
            warmup_s=self.warmup_s,
        )

    def _axis(self, axis: str, values: object) -> dict[str, Any] | list[Any]:
        """Return the values of an axis, by name where they have names."""
        first, _, rest = str(axis).partition(".")
        if axis not in (*_PARTS[:3], *_SHORT) and (first not in _PARTS or not rest):
            known = ", ".join((*_PARTS[:3], *_SHORT))
            raise ConfigError(
                f"over of a Grid must have axes {known}, or paths of fields such as "
                f"policy.scheduler.max_num_seqs, was {axis!r}"
            )
        if axis in _RESERVED or not isinstance(values, Mapping | list | tuple) or not values:
            raise ConfigError(
                f"{axis} of a Grid must be a list of values or a table of named ones, at least one, was "
                f"{_check.said(values)}"
            )
        if isinstance(values, Mapping):
            return {str(name): self._value(axis, value) for name, value in values.items()}
        plain = all(value is None or isinstance(value, bool | int | float | str) for value in values)
        labels = list(values) if plain else [_name(axis, value) for value in values]
        seen: set[Any] = set()
        for label in labels:
            if label in seen:
                raise ConfigError(
                    f"{axis} of a Grid must have each value once, had {label!r} twice; give names to values: "
                    "{name: value}"
                )
            seen.add(label)
        if not plain or axis in _PARTS:
            return {str(label): self._value(axis, value) for label, value in zip(labels, values, strict=True)}
        return labels

    def _value(self, axis: str, value: Any) -> Any:  # noqa: ANN401 - as TOML has it
        return self._part(axis, value) if axis in _PARTS else value

    def _part(self, name: str, value: Any) -> dict[str, Any]:  # noqa: ANN401
        """Return a whole part as a table."""
        if isinstance(value, Trace):
            self._traces[value.sha256] = value
            return {"sha256": value.sha256}
        if isinstance(value, Recipe):
            return value.to_table()
        if isinstance(value, Cluster | Policy):
            return _toml.parse(value.to_toml(), name)
        if name == "trace":
            return Recipe.from_table(value, self.folder).to_table()
        return included(value, name, self.folder)


def _type_of(labels: Iterable[object]) -> str:
    """Return the type that holds the labels of an axis."""
    kinds = {type(label).__name__ for label in labels if label is not None}
    for kind, fitting in (("bool", {"bool"}), ("int", {"int"}), ("float", {"int", "float"})):
        if kinds and kinds <= fitting:
            return kind
    return "str"


def _name(axis: str, value: Any) -> str:  # noqa: ANN401
    """Return the name of a value that has no name of its own in an axis."""
    if isinstance(value, Policy | Trace):
        return value.name
    if isinstance(value, Mapping):
        for key in ("name", "preset", "file", "path"):
            if isinstance(value.get(key), str):
                return str(value[key])
    raise ConfigError(
        f"{axis} of a Grid must have names for its values: {{name: value}}, was {_check.said(value)}"
    )

"""The parameters of a fit: fields of an Efficiency or an Energy, and points of a Coverage."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from paceline import _check
from paceline._arguments import typed_fields
from paceline._toml import build, close_matches, table
from paceline.cost import Coverage, Efficiency, Energy, Roofline
from paceline.errors import ConfigError

__all__ = ["Parameter", "with_energy", "with_values"]

_COVERAGE = "coverage_"
_TIMES = (
    *("layer_s", "step_s", "attention_request_s", "ring_latency_s", "one_shot_latency_s"),
    "matrix_s",
)
_SHARES = (
    *("memory", "matmul", "attention_memory", "attention_matmul", "ring", "one_shot"),
    *("experts_memory", "experts_matmul"),
)
#: Fields that hold for one type of weights in place of ``memory`` and ``matmul``.
_BY_TYPE = ("fp8", "experts_bfloat16", "experts_fp8", "experts_mxfp4")
_ENERGY = ("idle_w", "busy_w", "hbm_j_per_byte", "j_per_flop", "link_j_per_byte")


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Parameter:
    """A number to fit.

    Parameters
    ----------
    name
        A field of :class:`Efficiency <paceline.cost.Efficiency>` or :class:`Energy <paceline.cost.Energy>`,
        or a name such as ``coverage_512``: the share of a layer's experts that so many tokens need. Points of
        the given coverage beyond the first fitted one are dropped.
    start
        The start of the fit, to which ``lean`` pulls.
    low, high
        Bounds, above 0.
    lean
        The deviation from the start, as the logarithm of a factor, that counts as one; 0: none. It bounds a
        number that the observations do not determine.

    Raises
    ------
    ConfigError
        If there is no such number, or the bounds are not in order.
    """

    name: str
    start: float
    low: float
    high: float
    lean: float = 0.0

    def __post_init__(self) -> None:
        known = (*_TIMES, *_SHARES, *_ENERGY)
        if not self.name.startswith(_COVERAGE) and self.name not in known:
            raise ConfigError(f"there is no parameter {self.name!r}{close_matches(self.name, known)}")
        if self.name.startswith(_COVERAGE):
            digits = self.name.removeprefix(_COVERAGE)
            _check.count(f"tokens of parameter {self.name!r}", int(digits) if digits.isdecimal() else digits)
        for side in ("start", "low", "high"):
            _check.positive(f"{side} of parameter {self.name!r}", getattr(self, side))
        if not self.low <= self.start <= self.high or self.low == self.high:
            raise ConfigError(
                f"parameter {self.name!r} must have low <= start <= high, and some room, was "
                f"{self.low}, {self.start}, {self.high}"
            )
        if self.lean < 0 or not math.isfinite(self.lean):
            raise ConfigError(f"lean of parameter {self.name!r} must be 0 or more, was {self.lean}")

    @property
    def tokens(self) -> int | None:
        """Tokens of a point of the coverage; ``None`` for a field of an Efficiency."""
        return int(self.name.removeprefix(_COVERAGE)) if self.name.startswith(_COVERAGE) else None


def with_values(
    efficiency: Efficiency,
    coverage: Coverage | None,
    parameters: Sequence[Parameter],
    values: Mapping[str, float],
    *,
    coverage_until: int | None = None,
) -> Roofline:
    """Return a roofline with the numbers in place of what it had.

    A fitted ``memory`` or ``matmul`` is of all types of weights: what was known of single ones is dropped. Of
    the coverage, points up to ``coverage_until`` tokens and before the first fitted one are kept.
    """
    fields = {of.name: values[of.name] for of in parameters if of.name in (*_TIMES, *_SHARES)}
    points = {of.tokens: values[of.name] for of in parameters if of.tokens is not None}
    own = _BY_TYPE if {"memory", "matmul"} & fields.keys() else ()
    known = {name: value for name, value in table(efficiency).items() if name not in own}
    changed = build(Efficiency, known | fields, "a fit")
    if not points:
        return Roofline(efficiency=changed, coverage=coverage)
    if coverage is None:
        raise ConfigError("coverage must be given where points of it are fitted, was None")
    kept = {
        tokens: share
        for tokens, share in zip(coverage.tokens, coverage.share, strict=True)
        if tokens < min(points) and (coverage_until is None or tokens <= coverage_until)
    }
    tokens = (*kept, *sorted(points))
    # A larger batch needs no fewer experts.
    share = accumulate((*kept.values(), *(min(points[n], 1.0) for n in sorted(points))), max)
    return Roofline(efficiency=changed, coverage=Coverage(tokens=tokens, share=tuple(share)))


def with_energy(
    energy: Energy | None, parameters: Sequence[Parameter], values: Mapping[str, float]
) -> Energy | None:
    """Return the energy with the numbers in place of what it had; ``None`` stays so where none is fitted."""
    fields = {of.name: values[of.name] for of in parameters if of.name in _ENERGY}
    if not fields:
        return energy
    if energy is None:
        raise ConfigError("gpu must have an energy where numbers of it are fitted, has none")
    source = f"{energy.source}; fitted by paceline calibrate: {', '.join(fields)}"
    return dataclasses.replace(energy, source=source, **fields)

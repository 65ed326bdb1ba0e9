"""The trace of a run: read from a file or drawn from a preset, and brought to a rate."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from paceline import _check, _toml
from paceline._arguments import typed_fields
from paceline.errors import ConfigError, TraceError
from paceline.limits import Limits
from paceline.trace import Trace, read_trace
from paceline.trace.choices import Arrivals, Unit
from paceline.trace.known import Format

__all__ = ["Recipe"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Recipe:
    """What the trace of a run is made from.

    Parameters
    ----------
    path
        File of the trace, in any format that `paceline.read_trace` recognises. Or `preset`.
    preset
        Name of a workload, as of `paceline.synthesize`, with `requests` and `seed`.
    requests
        Requests to draw from the preset; of a file, its first requests only.
    seed
        Of the drawn trace.
    rate
        Requests per second. A preset is drawn at this rate; the arrivals of a file are stretched to it.
    scale
        Instead of `rate`: multiplies the rate of arrivals.
    on_empty_output, format, unit, block_tokens, arrivals
        As of `paceline.read_trace`; of a file only.
    sha256
        Digest of the trace's rows before `rate` and `scale` change the arrivals. If it is given, a trace
        with another digest is refused.

    Raises
    ------
    ConfigError
        If neither or both of `path` and `preset` are given, or a parameter does not belong to the one given.

    Examples
    --------
    >>> recipe = Recipe(preset="azure-conv", requests=100, seed=1, rate=4.0)
    >>> len(recipe.load())
    100
    """

    path: str | None = None
    preset: str | None = None
    requests: int | None = None
    seed: int | None = None
    rate: float | None = None
    scale: float | None = None
    on_empty_output: Literal["drop", "error"] = "drop"
    format: Format | None = None
    unit: Unit | None = None
    block_tokens: int | None = None
    arrivals: Arrivals | None = None
    sha256: str | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.preset is None):
            raise ConfigError(
                f"a trace must have one of path and preset, was path {self.path!r} and preset {self.preset!r}"
            )
        if self.preset is not None and self.requests is None:
            raise ConfigError(
                f"a trace drawn from preset {self.preset!r} needs requests, how many: requests = 1000"
            )
        if self.path is not None and self.seed is not None:
            raise ConfigError(
                f"seed belongs to a preset, and the trace is read from {self.path}, was {self.seed}"
            )
        for name in ("format", "unit", "block_tokens", "arrivals"):
            if self.path is None and getattr(self, name) is not None:
                raise ConfigError(
                    f"{name} says how a file is read, and the trace is drawn from preset {self.preset!r}, "
                    f"was {getattr(self, name)!r}"
                )
        if self.requests is not None:
            _check.count("requests of a trace", self.requests)
        if self.seed is not None:
            _check.count("seed of a trace", self.seed, least=0)
        if self.rate is not None and self.scale is not None:
            raise ConfigError(
                f"a trace must have one of scale and rate, was scale {self.scale} and rate {self.rate}"
            )
        for name in ("rate", "scale"):
            given = getattr(self, name)
            if given is not None and not (_check.is_number(given) and given > 0):
                raise ConfigError(f"{name} must be a positive finite number, was {_check.said(given)}")

    @property
    def base(self) -> Recipe:
        """The recipe of the rows before their arrivals change: recipes of one base read or draw once."""
        return replace(self, scale=None, rate=self.rate if self.preset is not None else None)

    def load(self, limits: Limits | None = None) -> Trace:
        """Read or draw the trace, and bring it to its rate.

        Raises
        ------
        TraceError
            As `paceline.read_trace` does, or if its digest is not `sha256`.
        ConfigError
            As `paceline.synthesize` does.
        """
        return self.paced(self.draw(limits))

    def draw(self, limits: Limits | None = None) -> Trace:
        """Read or draw the rows, and check their digest."""
        if self.path is not None:
            trace = read_trace(
                Path(self.path),
                format=self.format,
                on_empty_output=self.on_empty_output,
                limits=limits,
                unit=self.unit,
                block_tokens=self.block_tokens,
                arrivals=self.arrivals,
            )
            if self.requests is not None and self.requests < len(trace):
                trace = trace.with_frame(trace.frame.head(self.requests))
        else:
            assert self.preset is not None, "Invariant: __post_init__ checks it"
            assert self.requests is not None, "Invariant: __post_init__ checks it"
            from paceline.synthesis import synthesize

            trace = synthesize(self.preset, requests=self.requests, seed=self.seed or 0, rate=self.rate)
        if self.sha256 is not None and trace.sha256 != self.sha256:
            raise TraceError(
                f"{self.path or self.preset}: its rows must have the digest {self.sha256} of the run, had "
                f"{trace.sha256}; the trace has changed since: restore it, or remove sha256 from the run"
            )
        return trace

    def paced(self, rows: Trace) -> Trace:
        """Bring the rows of `draw` to the rate of this recipe."""
        if self.scale is not None:
            return rows.at_rate(scale=self.scale)
        if self.rate is not None and self.path is not None:
            return rows.at_rate(rate=self.rate)
        return rows

    def to_table(self, folder: Path | None = None) -> dict[str, Any]:
        """Return the recipe as a TOML table; its path is relative to `folder` if that is given."""
        content = _toml.table(self)
        if self.on_empty_output == "drop":
            del content["on_empty_output"]
        if self.path is not None and folder is not None:
            # Links are resolved, as ".." after a link leads elsewhere.
            path = os.path.relpath(os.path.realpath(self.path), os.path.realpath(folder))
            content["path"] = Path(path).as_posix()
        return content

    @classmethod
    def from_table(cls, content: object, folder: Path) -> Recipe:
        """Read a recipe from its TOML table; a relative path starts at `folder`."""
        if not isinstance(content, Mapping):
            raise ConfigError(f"trace must be a table with path or preset, was {_check.said(content)}")
        fields = dict(content)
        if isinstance(fields.get("path"), str):
            fields["path"] = str(folder / fields["path"])
        return _toml.build(cls, fields, "trace")

"""Fitted efficiencies, with what they were fitted to."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib import resources
from itertools import accumulate
from typing import Any, Literal

from paceline._arguments import typed, typed_fields
from paceline._toml import build, close_matches, dump, parse, table
from paceline.cost import Coverage, Efficiency, Energy, Roofline
from paceline.errors import ConfigError
from paceline.hardware import Gpu

__all__ = ["Equal", "Fit", "Residual", "fit_names", "load_fit"]

_FOLDER = resources.files("paceline.catalog") / "fits"
_SUFFIX = ".fit.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Residual:
    """An observation, and the prediction of the fitted roofline.

    Parameters
    ----------
    name, source, tolerance, bound
        As of the :class:`Observation <paceline.calibration.Observation>`.
    observed, fitted
        Its value, and the prediction.
    """

    name: str
    source: str
    observed: float
    fitted: float
    tolerance: float
    bound: Literal["at_least", "at_most"] | None = None

    @property
    def off(self) -> float:
        """The prediction over the observation, less 1."""
        return self.fitted / self.observed - 1

    @property
    def pull(self) -> float:
        """The logarithm of that over the tolerance; 0 on the right side of a bound."""
        pull = math.log(self.fitted / self.observed) / self.tolerance
        if self.bound == "at_least":
            return min(pull, 0.0)
        return max(pull, 0.0) if self.bound == "at_most" else pull


@dataclass(frozen=True, slots=True, kw_only=True)
class Equal:
    """Other numbers that meet the observations as well.

    Parameters
    ----------
    cost
        Half the sum of squared residuals.
    fitted
        The numbers by name.
    """

    cost: float
    fitted: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Fit:
    """The result of a calibration.

    Parameters
    ----------
    model, gpu, tensor_parallel
        The model, and the GPUs that it runs on.
    efficiency, coverage, energy
        The fitted numbers, and those that were kept.
    fitted
        The fitted ones by name.
    at_bound
        Names of those that ended at a bound, beyond which the observations would move them.
    residuals
        Each observation beside its prediction.
    tool
        What made it.
    observations_sha256
        Of the file of observations.
    equals
        Fits from other starts that meet the observations as well
        (:func:`~paceline.calibration.with_equals`). If there are any, the observations do not determine the
        numbers, and a prediction for other work is one of several: see :meth:`variants`.
    starts
        How many other starts were tried for that; 0: none.

    Examples
    --------
    >>> fit = load_fit(fit_names()[0])
    >>> Fit.from_toml(fit.to_toml()) == fit
    True
    """

    model: str
    gpu: str
    tensor_parallel: int
    efficiency: Efficiency
    fitted: dict[str, float]
    residuals: tuple[Residual, ...]
    coverage: Coverage | None = None
    energy: Energy | None = None
    at_bound: tuple[str, ...] = ()
    tool: str = ""
    observations_sha256: str = ""
    equals: tuple[Equal, ...] = ()
    starts: int = 0

    @property
    def cost(self) -> float:
        """Half the sum of squared residuals of the observations."""
        return 0.5 * sum(of.pull**2 for of in self.residuals)

    def variants(self) -> tuple[Fit, ...]:
        """Return a fit for each of ``equals``, without residuals."""
        return tuple(self._with(of.fitted) for of in self.equals)

    def _with(self, values: dict[str, float]) -> Fit:
        efficiency = table(self.efficiency) | {k: v for k, v in values.items() if hasattr(self.efficiency, k)}
        coverage, energy = self.coverage, self.energy
        if coverage is not None:
            points = dict(zip(coverage.tokens, coverage.share, strict=True))
            points |= {
                int(name.removeprefix("coverage_")): value
                for name, value in values.items()
                if name.startswith("coverage_")
            }
            tokens = tuple(sorted(points))
            # A larger batch needs no fewer experts.
            share = tuple(accumulate((min(points[n], 1.0) for n in tokens), max))
            coverage = Coverage(tokens=tokens, share=share, source=coverage.source)
        if energy is not None:
            energy = build(
                Energy, table(energy) | {k: v for k, v in values.items() if hasattr(energy, k)}, "a fit"
            )
        return replace(
            self,
            efficiency=build(Efficiency, efficiency, "a fit"),
            coverage=coverage,
            energy=energy,
            fitted=dict(values),
            residuals=(),
            equals=(),
        )

    def roofline(self) -> Roofline:
        """Return a roofline of these efficiencies."""
        return Roofline(efficiency=self.efficiency, coverage=self.coverage)

    def resolved_gpu(self) -> Gpu:
        """Return the GPU of the catalog, with the fitted energy."""
        given = Gpu.load(self.gpu)
        return given if self.energy is None else replace(given, energy=self.energy)

    def to_toml(self) -> str:
        """Return the fit as the text of a TOML file."""
        content: dict[str, Any] = {
            "model": self.model,
            "gpu": self.gpu,
            "tensor_parallel": self.tensor_parallel,
            "tool": self.tool,
            "observations_sha256": self.observations_sha256,
            "at_bound": list(self.at_bound),
            "starts": self.starts,
            "fitted": self.fitted,
            "efficiency": table(self.efficiency),
        }
        for name in ("coverage", "energy"):
            if getattr(self, name) is not None:
                content[name] = table(getattr(self, name))
        content["equals"] = [table(of) for of in self.equals]
        content["residuals"] = [table(residual) for residual in self.residuals]
        return dump(content)

    @classmethod
    @typed()
    def from_toml(cls, text: str) -> Fit:
        """Read what :meth:`to_toml` wrote."""
        content = parse(text, "a fit")
        made = dict(content)
        if "efficiency" in made:
            made["efficiency"] = build(Efficiency, made["efficiency"], "efficiency of a fit")
        if "coverage" in made:
            made["coverage"] = build(Coverage, made["coverage"], "coverage of a fit")
        if "energy" in made:
            made["energy"] = build(Energy, made["energy"], "energy of a fit")
        rows = made.get("residuals", [])
        if not isinstance(rows, list):
            raise ConfigError(f"residuals of a fit must be tables, was {rows!r}")
        made["residuals"] = tuple(build(Residual, row, "residuals of a fit") for row in rows)
        others = made.get("equals", [])
        if not isinstance(others, list):
            raise ConfigError(f"equals of a fit must be tables, was {others!r}")
        made["equals"] = tuple(build(Equal, row, "equals of a fit") for row in others)
        made["at_bound"] = tuple(made.get("at_bound", ()))
        return build(cls, made, "a fit")


def fit_names() -> tuple[str, ...]:
    """Return the names of the fits that come with Paceline, sorted."""
    return tuple(
        sorted(file.name.removesuffix(_SUFFIX) for file in _FOLDER.iterdir() if file.name.endswith(_SUFFIX))
    )


@typed()
def load_fit(name: str) -> Fit:
    """Return a fit that comes with Paceline.

    Raises
    ------
    ConfigError
        If there is none of that name.

    Examples
    --------
    >>> load_fit("h100-sxm-x2-qwen3-30b-a3b").tensor_parallel
    2
    """
    known = fit_names()
    if name not in known:
        raise ConfigError(f"there is no fit {name!r}{close_matches(name, known)}")
    return Fit.from_toml((_FOLDER / f"{name}{_SUFFIX}").read_text(encoding="utf-8"))

"""Fitted efficiencies, with what they were fitted to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, Literal

from paceline._arguments import typed, typed_fields
from paceline._toml import build, close_matches, dump, parse, table
from paceline.cost import Coverage, Efficiency, Energy, Roofline
from paceline.errors import ConfigError
from paceline.hardware import Gpu

__all__ = ["Fit", "Residual", "fit_names", "load_fit"]

_FOLDER = resources.files("paceline.profiles") / "fits"
_SUFFIX = ".fit.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Residual:
    """An observation, and what the fitted roofline says of it.

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


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Fit:
    """What a calibration came to.

    Parameters
    ----------
    model, gpu, tensor_parallel
        What ran on what.
    efficiency, coverage, energy
        The fitted numbers, and those that were kept.
    fitted
        The fitted ones by name.
    at_bound
        Names of those that ended at a bound: the observations would have them go further.
    residuals
        Each observation beside what the fit says of it.
    tool
        What made it.
    observations_sha256
        Of the file of observations.

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
            "fitted": self.fitted,
            "efficiency": table(self.efficiency),
        }
        for name in ("coverage", "energy"):
            if getattr(self, name) is not None:
                content[name] = table(getattr(self, name))
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

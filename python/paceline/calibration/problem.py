"""The problem of a calibration: observations and parameters, read from a file."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from paceline._arguments import typed, typed_fields
from paceline._toml import build, parse
from paceline.calibration.benchmark import Benchmark, observed_tables
from paceline.calibration.observation import Observation, Of, Prompt, Serving, Step
from paceline.calibration.parameters import Parameter
from paceline.cost import Coverage, Efficiency
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.hardware.efficiency import fitted_to
from paceline.kernels.typed import Kind, read_csv, without_nulls
from paceline.model import Model
from paceline.trace.opening import content
from paceline.validation.resolving import find_model

__all__ = ["Problem", "read_observations"]

_KINDS: Mapping[str, type[Of]] = {
    "step": Step,
    "prompt": Prompt,
    "serving": Serving,
    "benchmark": Benchmark,
}
_OWN = ("name", "value", "bound", "tolerance", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Problem:
    """Observations of a model on GPUs, and the parameters to fit to them.

    Parameters
    ----------
    model, gpu
        Names of the catalogs.
    tensor_parallel
        GPUs that the model is split over.
    parameters
        What is fitted, one or more.
    observations
        What was observed, one or more, each under a name of its own.
    coverage
        A curve of the catalog; by default routing is uniform.
    coverage_until
        The last point of it, in tokens, that is kept where points beyond are fitted; by default all before
        the first fitted one.
    fixed
        Fields of the efficiency that are neither the catalog's nor fitted.
    sha256
        Of the file that it was read from.

    Raises
    ------
    ConfigError
        If there is nothing to fit, nothing to fit it to, or a name comes twice.
    """

    model: str
    gpu: str
    parameters: tuple[Parameter, ...]
    observations: tuple[Observation, ...]
    tensor_parallel: int = 1
    coverage: str | None = None
    coverage_until: int | None = None
    fixed: Mapping[str, float] = field(default_factory=dict)
    sha256: str = ""

    def __post_init__(self) -> None:
        for name in ("parameters", "observations"):
            given = [of.name for of in getattr(self, name)]
            if not given:
                raise ConfigError(f"{name} of a Problem must be one or more, were none")
            twice = sorted({one for one in given if given.count(one) > 1})
            if twice:
                raise ConfigError(
                    f"{name} of a Problem must have names of their own, were {', '.join(twice)} twice"
                )

    def resolved_model(self) -> Model:
        """Return the model."""
        return Model.load(self.model)

    def resolved_gpu(self) -> Gpu:
        """Return the GPU."""
        return Gpu.load(self.gpu)

    def resolved_coverage(self) -> Coverage | None:
        """Return the curve, if there is one."""
        return None if self.coverage is None else Coverage.load(self.coverage)

    def resolved_efficiency(self) -> Efficiency:
        """Return what the fit starts from: the catalog's, with what is fixed."""
        from paceline._toml import table

        given = self.resolved_gpu().efficiency
        if given is None:
            raise ConfigError(f"gpu of a Problem must have efficiencies to start from, {self.gpu!r} has none")
        fields = table(given) | dict(self.fixed)
        fields["source"] = "fitted by paceline calibrate; what is not among the fitted is the catalog's"
        fields["fitted_to"] = fitted_to(self.model, self.gpu, self.tensor_parallel)
        return build(Efficiency, fields, "fixed of a Problem")


@typed()
def read_observations(
    path: str | PathLike[str],
    *,
    model: str | None = None,
    gpu: str | None = None,
    tensor_parallel: int | None = None,
    fit: tuple[str, ...] = (),
) -> Problem:
    """Read a problem from a TOML file, steps from a CSV file, or latencies from a benchmark client's result.

    Parameters
    ----------
    path
        A TOML file as in ``docs/guides/calibrate.md``, or a CSV file with the columns ``name``,
        ``seconds``, ``source``, and those that matter of ``decodes``, ``context``, ``prefill``,
        ``history``, ``tolerance``; or a JSON file that `paceline.read_bench` reads, of which each run's
        mean TTFT, TPOT and ITL are observations.
    model, gpu, tensor_parallel
        In place of the file's; a CSV file has none, and a benchmark's may name its model.
    fit
        Names of parameters to fit, with usual bounds, starting from the catalog; in place of the file's.

    Raises
    ------
    ConfigError
        If the file has another form.
    """
    path = Path(path)
    data = content(path, error=ConfigError)
    document: dict[str, Any]
    if path.suffix == ".csv":
        document = {"observations": _csv(path)}
    elif data.lstrip().startswith(b"{") or path.suffix == ".json":
        document = _bench(path)
    else:
        try:
            document = parse(data.decode(), str(path))
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} must be UTF-8 text: {error}") from error
    unknown = set(document) - {
        *(
            "model",
            "gpu",
            "tensor_parallel",
            "coverage",
            "coverage_until",
            "fixed",
            "parameters",
            "observations",
        )
    }
    if unknown:
        raise ConfigError(f"{path} has no use for {', '.join(sorted(unknown))}")
    document |= {
        name: value
        for name, value in {"model": model, "gpu": gpu, "tensor_parallel": tensor_parallel}.items()
        if value is not None
    }
    for name in ("model", "gpu"):
        if not isinstance(document.get(name), str):
            raise ConfigError(f"{name} of {path} must be a name of the catalog, was {document.get(name)!r}")
    if fit:
        document["parameters"] = [{"name": name} for name in fit]
    observations = tuple(
        _observation(fields, f"observation {at} of {path}", path.parent)
        for at, fields in enumerate(_tables(document, "observations", path))
    )
    return Problem(
        **{
            **document,
            "parameters": tuple(
                _parameter(fields, document["gpu"], f"parameter {at} of {path}")
                for at, fields in enumerate(_tables(document, "parameters", path))
            ),
            "observations": observations,
            "sha256": _sha256(data, observations),
        }
    )


def _tables(document: Mapping[str, Any], name: str, path: Path) -> list[Mapping[str, Any]]:
    tables = document.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(each, Mapping) for each in tables):
        raise ConfigError(f"{name} of {path} must be tables, [[{name}]], was {repr(tables)[:80]}")
    return tables


def _parameter(fields: Mapping[str, Any], gpu: str, what: str) -> Parameter:
    """Make a parameter, with usual bounds and the catalog's number where the file says none."""
    if "start" not in fields:
        given = getattr(Gpu.load(gpu).efficiency, str(fields.get("name")), None)
        share = not str(fields.get("name")).endswith("_s")
        fields = {"start": given or (0.6 if share else 1e-5), **fields}
    share = not str(fields.get("name")).endswith("_s")
    fields = {"low": 0.01 if share else 1e-9, "high": 1.0 if share else 0.1, **fields}
    return build(Parameter, fields, what)


def _observation(fields: Mapping[str, Any], what: str, folder: Path) -> Observation:
    """Make an observation; a benchmark's file is relative to `folder`, and has the value if none is given."""
    kind = str(fields.get("kind"))
    if kind not in _KINDS:
        raise ConfigError(f"kind of {what} must be one of {', '.join(_KINDS)}, was {kind!r}")
    own = {name: value for name, value in fields.items() if name in _OWN}
    work = {name: value for name, value in fields.items() if name not in (*_OWN, "kind")}
    if kind == "benchmark" and isinstance(work.get("file"), str):
        work["file"] = str(folder / work["file"])
        if "\0" in work["file"] or not Path(work["file"]).exists():
            raise ConfigError(f"file of {what} must exist, was {work['file']!r}")
    of = build(_KINDS[kind], work, what)
    if isinstance(of, Benchmark) and "value" not in own:
        own["value"] = of.observed()
    return build(Observation, {**own, "of": of}, what)


def _sha256(data: bytes, observations: Sequence[Observation]) -> str:
    """Return the hash of the file and of the benchmarks that it names, each once."""
    digest = hashlib.sha256(data)
    files = dict.fromkeys(one.of.file for one in observations if isinstance(one.of, Benchmark))
    for file in files:
        if Path(file).is_file():
            digest.update(content(Path(file), error=ConfigError))
    return digest.hexdigest()


def _bench(path: Path) -> dict[str, Any]:
    """Return the problem of a benchmark's file, without parameters."""
    name, tables = observed_tables(path)
    if not tables:
        raise ConfigError(f"{path} must have a mean TTFT, TPOT or ITL, had none")
    document: dict[str, Any] = {"observations": tables}
    if name is not None:
        with contextlib.suppress(ConfigError):
            document["model"] = find_model(name).name
    return document


def _csv(path: Path) -> list[dict[str, Any]]:
    needed: dict[str, Kind] = {"name": "text", "seconds": "number", "source": "text"}
    steps: dict[str, Kind] = dict.fromkeys(("decodes", "context", "prefill", "history"), "count")
    frame = read_csv(path, needed, optional={**steps, "tolerance": "number"}, others=False)
    without_nulls(frame.select(list(needed)), str(path))
    return [
        {"kind": "step", "value": row.pop("seconds"), **{k: v for k, v in row.items() if v is not None}}
        for row in frame.iter_rows(named=True)
    ]

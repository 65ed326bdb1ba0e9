"""`paceline calibrate`: fit a roofline's efficiencies to observations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from paceline.cli.candidates import gpu_names, model_names

if TYPE_CHECKING:
    from paceline.calibration import Fit

__all__ = ["calibrate"]


def calibrate(
    observations: Path,
    /,
    *,
    out: Path | None = None,
    model: Annotated[str | None, Parameter(completer=model_names)] = None,
    gpu: Annotated[str | None, Parameter(completer=gpu_names)] = None,
    tp: int | None = None,
    fit: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    starts: int = 0,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    quiet: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Fit a roofline's efficiencies to observations, and write them with where they come from.

    Needs SciPy: pip install 'paceline[calibrate]'.

    Parameters
    ----------
    observations
        A TOML file of observations and parameters to fit (docs/guides/calibrate.md); the JSON of a benchmark
        client (docs/guides/benchmarks.md), whose mean latencies are the observations; or a CSV file
        of steps: name, seconds, source, and decodes, context, prefill, history, tolerance.
    out
        A TOML file for the fit: the efficiencies, and each observation beside its prediction.
    model
        The observed model, in place of the file's. A CSV file has none, as of the next two.
    gpu
        The observed GPU, in place of the file's.
    tp
        GPUs over which each layer is split, in place of the file's.
    fit
        Parameters to fit, in place of the file's: memory, layer_s, coverage_512 and others.
    starts
        Fit again from so many other starts, and keep the fits that meet the observations as well.
    json
        Print one JSON object instead of a table.
    quiet
        Do not say how far the fit has come.
    """
    from paceline.calibration import calibrate as solve
    from paceline.calibration import read_observations, with_equals
    from paceline.cli.output import note, print_json

    problem = read_observations(observations, model=model, gpu=gpu, tensor_parallel=tp, fit=tuple(fit))
    with _Status(quiet=quiet) as status:
        found = solve(problem, report=status.show)
        if starts:
            found = with_equals(problem, found, starts=starts, report=status.again)
    if out is not None:
        from paceline._atomic import new_file

        with new_file(out) as draft:
            draft.write_text(found.to_toml(), encoding="utf-8")
    if json:
        print_json(_document(found))
    else:
        _print(found)
    if out is not None:
        note(f"wrote {out}")


def _document(found: Fit) -> dict[str, Any]:
    return {
        "model": found.model,
        "gpu": found.gpu,
        "tensor_parallel": found.tensor_parallel,
        "fitted": found.fitted,
        "at_bound": list(found.at_bound),
        "observations_sha256": found.observations_sha256,
        "cost": found.cost,
        "starts": found.starts,
        "equals": [{"cost": of.cost, "fitted": of.fitted} for of in found.equals],
        "residuals": [
            {
                "name": of.name,
                "observed": of.observed,
                "bound": of.bound,
                "fitted": of.fitted,
                "off": of.off,
                "tolerance": of.tolerance,
                "source": of.source,
            }
            for of in found.residuals
        ],
    }


def _print(found: Fit) -> None:
    from paceline.cli.output import console, table

    signs = {None: "", "at_least": "≥ ", "at_most": "≤ "}
    console().print(
        table(
            ("fitted", "value", "fits of equal cost", ""),
            [
                (name, f"{value:.4g}", _range(found, name), "at its bound" if name in found.at_bound else "")
                for name, value in found.fitted.items()
            ],
        )
    )
    console().print()
    console().print(
        table(
            ("observation", "observed", "fitted", "off"),
            [
                (of.name, f"{signs[of.bound]}{of.observed:.4g}", f"{of.fitted:.4g}", f"{of.off:+.1%}")
                for of in found.residuals
            ],
        )
    )


def _range(found: Fit, name: str) -> str:
    values = [of.fitted[name] for of in found.equals]
    return f"{min(values):.4g} to {max(values):.4g}" if values else ""


class _Status:
    """A line on standard error about how far a fit has come, if that is a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        import sys

        self._shown = sys.stderr.isatty() and not quiet
        self._status: Any = None

    def __enter__(self) -> _Status:
        if self._shown:
            from rich.console import Console

            self._status = Console(stderr=True).status("fitting")
            self._status.start()
        return self

    def show(self, evaluated: int, cost: float) -> None:
        """Show the number of evaluations, and half the sum of squares."""
        if self._status is not None:
            self._status.update(f"fitting: {evaluated} evaluations, {cost:.2f}")

    def again(self, done: int, cost: float) -> None:
        """Show how many other starts were tried."""
        if self._status is not None:
            self._status.update(f"fitting again: {done} starts, {cost:.2f}")

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.stop()

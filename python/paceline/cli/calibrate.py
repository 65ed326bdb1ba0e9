"""`paceline calibrate`: fit a roofline's efficiencies to observations, or an engine's host time to runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from paceline.cli.candidates import gpu_names, model_names
from paceline.cli.host_options import HostOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paceline import Cluster
    from paceline.calibration import Fit, HostFit
    from paceline.policy import Policy

__all__ = ["calibrate"]


def calibrate(
    observations: Path | None = None,
    /,
    *,
    host: Annotated[tuple[Path, ...], Parameter(negative="", show_default=False, consume_multiple=True)] = (),
    on: Annotated[HostOptions | None, Parameter(name="*")] = None,
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
    host
        In place of observations: JSON files of a benchmark client with each request (``vllm bench serve
        --save-result --save-detailed``), to which a front end and the host time of a step are fitted. Every
        other request is held out. The file of ``--out`` is what ``replay(host=…)`` takes.
    on
        The server of those runs.
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
    if host:
        served = (on or HostOptions()).server(host[0], model=model, gpu=gpu, tensor_parallel=tp)
        name = (on or HostOptions()).server_version
        _calibrate_host(host, served, name, out=out, json=json, quiet=quiet)
        return
    if observations is None:
        from paceline.errors import ConfigError

        raise ConfigError("calibrate must have a file of observations, or --host RUN.json, had neither")
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


def _calibrate_host(
    files: Sequence[Path],
    served: tuple[Cluster, Policy],
    name: str,
    *,
    out: Path | None,
    json: bool,
    quiet: bool,
) -> None:
    """Fit a host to runs, print it with its spread and what was held out, and write it."""
    from paceline.calibration import fit_host
    from paceline.cli.output import note, print_json

    with _Status(quiet=quiet) as status:
        found = fit_host(files, *served, name=name, report=status.again)
    if out is not None:
        found.host.write(out)
    if json:
        spread = {name: list(ends) for name, ends in found.spread().items()}
        constants = {name: getattr(found.host, name) for name in spread}
        print_json(
            {
                "host": found.host.name,
                "fitted": constants,
                "spread": spread,
                "fits_of_equal_cost": len(found.equals),
                "root_mean_square": found.off,
                "held_out": dict(found.held),
                "held_out_without": dict(found.without),
            }
        )
    else:
        _print_host(found)
    if out is not None:
        note(f"wrote {out}")


def _print_host(found: HostFit) -> None:
    from paceline.cli.output import console, table

    rows = [
        (name, f"{1e3 * getattr(found.host, name):.4g} ms", f"{1e3 * least:.4g} to {1e3 * most:.4g} ms")
        for name, (least, most) in found.spread().items()
    ]
    console().print(table(("fitted", "value", f"range over {len(found.equals)} of equal cost"), rows))
    console().print()
    rows = [
        (name, f"{of['median']:.1%}", f"{of['p90']:.1%}")
        for name, of in (("with the host", found.held), ("without", found.without))
    ]
    console().print(table(("held out: TTFT and TPOT", "median error", "P90"), rows))


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

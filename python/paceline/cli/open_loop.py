"""`paceline validate` of a folder of open-loop runs: mean errors by rate, of a roofline and of tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.concurrency import Concurrency

__all__ = ["compare_open_loop"]


def compare_open_loop(
    folder: Path,
    profile: str | None,
    *,
    frontend_s: float,
    json: bool,
    clients: Concurrency | None = None,
) -> None:
    """Print mean TTFT, TPOT and E2E by rate, measured, and how far the replays are off.

    Parameters
    ----------
    folder
        With ``RUN.csv.gz``.
    profile
        Measured kernels to replay with, besides the roofline; None: the roofline alone.
    frontend_s
        Seconds between a request's sending and the scheduler.
    json
        Print one JSON object instead of a table.
    clients
        The limit that the client of the runs had; None: requests are sent when they were measured to be.
    """
    import numpy as np

    from paceline.cli.output import console, print_json
    from paceline.cost import Roofline
    from paceline.kernels import Table
    from paceline.validation.comparison import METRICS
    from paceline.validation.open_loop import Server, noise, predict_means, read_open_loop, same_rate

    runs, server = read_open_loop(folder), Server()
    costs: dict[str, Roofline | Table] = {"roofline": Roofline()}
    if profile is not None:
        costs["tables"] = Table(profile=profile)
    found: list[dict[str, Any]] = []
    for rate, group in same_rate(runs):
        measured = [
            {metric: run.measured.statistics()[metric]["mean"] for metric in METRICS} for run in group
        ]
        off = {}
        for name, cost in costs.items():
            predicted = [
                predict_means(run, cost, server=server, frontend_s=frontend_s, clients=clients)
                for run in group
            ]
            off[name] = {
                metric: float(
                    np.mean([p[metric] / m[metric] - 1 for p, m in zip(predicted, measured, strict=True)])
                )
                for metric in METRICS
            }
        found.append(
            {
                "rate": rate,
                "runs": [run.name for run in group],
                "requests": sum(len(run.trace) for run in group),
                "left_out": sum(run.left_out for run in group),
                "measured_s": {m: float(np.mean([of[m] for of in measured])) for m in METRICS},
                "off": off,
                "noise": dict(noise(group)),
            }
        )
    if json:
        made = {"server": repr(server), "profile": profile, "frontend_s": frontend_s}
        print_json({**made, "clients": None if clients is None else repr(clients), "rates": found})
        return
    _print(found, METRICS)
    limit = "" if clients is None else f"; {clients}"
    console().print(f"{server}; front end {1e3 * frontend_s:g} ms{limit}")


def _print(found: list[dict[str, Any]], metrics: Sequence[str]) -> None:
    """Print the means that were measured at each rate, and how far the replays are off."""
    from paceline.cli.output import console, table

    heads = ["requests/s", "runs", "requests", ""] + [metric.upper() for metric in metrics]
    rows = []
    for of in found:
        label = [f"{of['rate']}", f"{len(of['runs'])}", f"{of['requests']:,}"]
        rows.append([*label, "measured, ms", *(f"{1e3 * of['measured_s'][m]:,.1f}" for m in metrics)])
        for name, shares in of["off"].items():
            rows.append(["", "", "", name, *(f"{100 * shares[m]:+.1f}%" for m in metrics)])
        if of["noise"]:
            rows.append(["", "", "", "patched GPU", *(f"{100 * of['noise'][m]:+.1f}%" for m in metrics)])
    console().print(table(heads, rows))

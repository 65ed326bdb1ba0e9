"""`paceline capacity`: the highest rate, or the most in flight, that meets an SLO, and the curve."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from paceline.cli.options import (
    DEFAULT_CLUSTER,
    DEFAULT_POLICY,
    DEFAULT_READING,
    OUTPUT,
    SEARCH,
    ClusterOptions,
    Flag,
    PolicyOptions,
    ReadingOptions,
    Warmup,
    warmup_of,
)
from paceline.cli.predicting import NO_PREDICTION, PredictionOptions
from paceline.cli.searching import ObjectiveOptions
from paceline.cli.waiting import NO_CLIENTS, ClientOptions

__all__ = ["capacity"]


def capacity(
    trace: Path,
    /,
    *,
    on: ClusterOptions = DEFAULT_CLUSTER,
    under: PolicyOptions = DEFAULT_POLICY,
    predicting: PredictionOptions = NO_PREDICTION,
    waiting: ClientOptions = NO_CLIENTS,
    reading: ReadingOptions = DEFAULT_READING,
    meeting: ObjectiveOptions,
    warmup: Warmup = None,
    tolerance: Annotated[float, Parameter(group=SEARCH)] = 0.01,
    lowest: Annotated[float | None, Parameter(group=SEARCH)] = None,
    highest: Annotated[float | None, Parameter(group=SEARCH)] = None,
    windows: Annotated[int, Parameter(group=SEARCH)] = 1,
    workers: Annotated[int | None, Parameter(group=SEARCH)] = None,
    json: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    quiet: Annotated[Flag, Parameter(group=OUTPUT)] = False,
) -> None:
    """Search for the highest request rate, or the most in flight, that meets an SLO.

    The arrivals of the trace are multiplied by a constant, and the whole trace is replayed at each rate.
    The answer is the highest evaluated rate such that it and all evaluated rates below it pass. If a rate
    above it passes also, the curve is noisy around the target, and the command says up to which rate.

    With --concurrency or --concurrent-sessions the answer is the most requests or sessions in flight; the
    search begins with the given number.

    Parameters
    ----------
    trace
        File with the requests; its format is recognised, also with .gz or .zst.
    warmup
        Requests that arrive in the first so long a time of the trace, at its own rate (20s, 500ms; seconds
        without a unit), are replayed but not judged.
    tolerance
        Width of the last bracket, relative to the rate.
    lowest
        Lowest rate of the search, in requests per second; by default 1/1024 of the trace's own. Of requests
        or sessions in flight by default 1.
    highest
        Highest rate of the search; by default 1024 times the trace's own. Of requests or sessions in flight
        by default all of the trace.
    windows
        Cut the trace into so many windows of equal duration, and search for the capacity of each also.
    workers
        Replays at a time; by default one on each core. The answer does not depend on it.
    json
        Print one JSON object instead of tables.
    quiet
        Print nothing to standard error but errors.
    """
    import paceline
    from paceline.cli.options import layers_of
    from paceline.cli.output import note, print_json
    from paceline.cli.progress import TaskBar
    from paceline.errors import TraceWarning

    slo = meeting.bounds()
    cluster = predicting.of(on.cluster())
    chosen = under.choose(layers_of(cluster.instances[0]))
    requests = waiting.of(reading.read(trace))
    begun = time.perf_counter()
    with TaskBar(quiet=quiet) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # ties have a line of their own
        found = paceline.capacity(
            requests,
            cluster,
            chosen,
            slo,
            meeting.target,
            rule=meeting.rule,
            tolerance=tolerance,
            between=(lowest, highest),
            windows=windows,
            warmup_s=warmup_of(warmup),
            workers=workers,
            progress=lambda done, total: bar.show("searching", done, total),
        )
    took = time.perf_counter() - begun
    document = {
        **found.to_dict(),
        "paceline": paceline.__version__,
        "trace": {"name": requests.name, "sha256": requests.sha256, "requests": len(requests)},
        "cluster": cluster.to_toml(),
        "policy": chosen.to_toml(),
    }
    if json:
        print_json(document)
    else:
        _print(document, chosen.name)
    if not quiet:
        note(f"evaluated {found.curve.height} {'rates' if found.is_rate else 'numbers'} in {took:.2f} s")


def _print(document: dict[str, Any], policy: str) -> None:
    from rich.text import Text

    from paceline.cli.output import console, table
    from paceline.cli.rendering import cluster_words
    from paceline.cli.searching import facts, percent, quantity, titles

    screen = console()
    requests = document["trace"]["requests"]
    words = f"{requests:,} requests on {cluster_words(document['cluster'])}, {policy}"
    screen.print(Text(f"{document['trace']['name']}: {words}", style="bold"))
    screen.print()
    facts(_facts(document))
    screen.print()
    rows = document["curve"]
    percentiles = titles(rows[0])
    loads = _loads(document)
    shown = [
        (
            *(f"{row[name]:,.5g}" for name in loads),
            percent(row["attainment"]),
            *(quantity(row[name]) for name in percentiles),
            f"{row['rejected']:,}",
            "passes" if row["passes"] else "fails",
        )
        for row in rows
    ]
    headings = (*loads.values(), "attainment", *percentiles.values(), "rejected", "")
    screen.print(table(headings, shown, left=0))


def _loads(document: dict[str, Any]) -> dict[str, str]:
    """Return the columns of the curve that are loads, with their headings."""
    if document["unit"] == "requests/s":
        return {"rate": "requests/s", "scale": "× trace", "gpu_rate": "a GPU"}
    unit = document["unit"].partition(" ")[0]
    return {
        "in_flight": unit,
        "gpu_in_flight": "a GPU",
        "rate": "requests/s" if unit != "requests" else "a second",
    }


def _facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    from paceline.cli.searching import objective_words

    objective = objective_words(document["slo"], document["target"], document["rule"])
    unit = document["unit"]
    load = "rate" if unit == "requests/s" else "number"
    if document["bound"] == "above":
        found = f"{document['highest']:,.5g} {unit} or more: the highest {load} of the search passes"
    elif document["bound"] == "below":
        found = f"less than {document['lowest']:,.5g} {unit}: the lowest {load} of the search fails"
    elif document["in_flight"] is not None:
        found = f"{document['in_flight']:,} {unit}, {document['gpu_in_flight']:,.4g} a GPU"
        if document["megawatt_in_flight"] is not None:
            found += f", {document['megawatt_in_flight']:,.4g} a megawatt of GPUs"
        found += f"; {document['rate']:,.4g} requests/s"
    else:
        found = (
            f"{document['rate']:,.5g} requests/s, {document['scale']:,.4g} times the trace's own rate, "
            f"{document['gpu_rate']:,.4g} a GPU"
        )
    rows = [("capacity", found), ("objective", objective)]
    if document["bound"] is None:
        rows.append(
            ("edge", f"{document['fails_at']:,.5g} {unit} fails; all evaluated {load}s below it pass")
        )
    if not document["monotone"]:
        again = sum(each["passes_above"] for each in document["crossings"])
        rows.append(
            (
                "noise",
                f"not monotone: passes again {again} {'time' if again == 1 else 'times'} above it, up to "
                f"{document['highest_pass']:,.5g} {unit}",
            )
        )
    ties = document["ties"]
    if unit == "requests/s" and ties["share"] > 1 - (document["target"] or 0.90):
        rows.append(
            (
                "ties",
                f"{ties['share']:.1%} of the requests arrive at the same moment as another, up to "
                f"{ties['largest']:,} at once: no rate spreads them",
            )
        )
    if document["samples"] is not None:
        low, high = document["band"]
        ends = [f"{end:,.5g}" if end is not None else "beyond the limits" for end in (low, high)]
        rows.append(
            ("windows", f"{len(document['samples'])}, of capacities from {ends[0]} to {ends[1]} {unit}")
        )
    return rows

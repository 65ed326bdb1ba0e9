"""`paceline compare`: policies side by side on the same requests."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from paceline.cli.candidates import policy_names
from paceline.cli.load import DEFAULT_LOAD, LoadOptions
from paceline.cli.objective import objectives_if
from paceline.cli.options import (
    DEFAULT_CLUSTER,
    DEFAULT_POLICY,
    DEFAULT_READING,
    OBJECTIVES,
    OUTPUT,
    POLICY,
    ClusterOptions,
    Flag,
    PolicyOptions,
    ReadingOptions,
    Warmup,
    layers_of,
    warmup_of,
)
from paceline.cli.predicting import NO_PREDICTION, PredictionOptions

if TYPE_CHECKING:
    from paceline.policy import Policy
from paceline.cli.waiting import NO_CLIENTS, ClientOptions

__all__ = ["compare"]

_TITLES: Final = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "e2e": "E2E",
    "max_itl": "longest ITL",
    "queueing": "queueing",
    "attainment": "attainment",
    "finished": "finished",
}


def compare(
    *traces: Path,
    on: ClusterOptions = DEFAULT_CLUSTER,
    under: PolicyOptions = DEFAULT_POLICY,
    policies: Annotated[
        tuple[str, ...],
        Parameter(name="--against", group=POLICY, negative="", show_default=False, completer=policy_names),
    ] = (),
    predicting: PredictionOptions = NO_PREDICTION,
    load: LoadOptions = DEFAULT_LOAD,
    waiting: ClientOptions = NO_CLIENTS,
    reading: ReadingOptions = DEFAULT_READING,
    slo: Annotated[str | None, Parameter(group=OBJECTIVES)] = None,
    warmup: Warmup = None,
    confidence: Annotated[float, Parameter(group=OBJECTIVES)] = 0.95,
    draws: Annotated[int, Parameter(group=OBJECTIVES)] = 1000,
    workers: Annotated[int | None, Parameter(group=OUTPUT)] = None,
    report: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    all_: Annotated[Flag, Parameter(name="--all", group=OUTPUT)] = False,
    json: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    quiet: Annotated[Flag, Parameter(group=OUTPUT)] = False,
) -> None:
    """Compare policies on the same requests, with confidence intervals.

    --policy is the baseline, each --against a policy that is compared with it. Several traces are
    replications, and intervals are Student's t over them; with one trace they are of a bootstrap over blocks
    of its requests.

    Parameters
    ----------
    traces
        One or more files with requests; formats are recognised, also with .gz or .zst.
    policies
        A policy to compare: its name, or FILE.toml; after a colon parameters of its own, as
        sarathi:chunk_size=512,max_num_seqs=64; may be repeated.
    slo
        Bounds as NAME=TIME,…: ttft=500ms,tpot=0.04; in seconds without a unit (s, ms, us); also e2e, and itl
        for the longest gap.
    warmup
        Requests that arrive in the first so long a time (20s, 500ms; seconds without a unit) are replayed,
        but not judged.
    confidence
        Of the intervals.
    draws
        Draws of the bootstrap.
    workers
        Replays at a time; by default one on each core. The answer does not depend on it.
    report
        Write an HTML file with the intervals and all charts; needs pip install 'paceline[report]'.
    all_
        Print every metric and percentile.
    json
        Print one JSON object instead of a table.
    quiet
        Print nothing to standard error but errors.
    """
    import paceline
    from paceline.cli.output import note, print_json
    from paceline.cli.progress import TaskBar
    from paceline.errors import ConfigError
    from paceline.report.libraries import libraries

    if not traces:
        raise ConfigError("compare needs a trace: paceline compare TRACE --policy vllm --against sarathi …")
    if not policies:
        raise ConfigError("--against must name a policy to compare with --policy, was not given")
    bounds = objectives_if(slo)
    cluster = predicting.of(on.cluster())
    chosen = _chosen(under, policies, layers_of(cluster.instances[0]))
    if report is not None:
        libraries()  # before the replays, which may take long
    requests = [waiting.of(load.paced(reading.read(path))) for path in traces]
    begun = time.perf_counter()
    with TaskBar(quiet=quiet) as bar:
        found = paceline.compare(
            requests[0] if len(requests) == 1 else requests,
            cluster,
            chosen,
            slo=bounds,
            warmup_s=warmup_of(warmup),
            confidence=confidence,
            draws=draws,
            until=load.until,
            workers=workers,
            progress=lambda done, total: bar.show("replaying", done, total),
        )
    took = time.perf_counter() - begun
    document = {
        **found.to_dict(),
        "paceline": paceline.__version__,
        "traces": [{"name": each.name, "sha256": each.sha256, "requests": len(each)} for each in requests],
        "cluster": cluster.to_toml(),
        "policies": {name: policy.to_toml() for name, policy in chosen.items()},
        "slo": None if bounds is None else bounds.bounds(),
    }
    if report is not None:
        found.report(report)
    if json:
        print_json(document)
    else:
        _print(document, complete=all_)
    if not quiet:
        note(f"replayed {len(chosen) * len(requests)} times in {took:.2f} s")


def _chosen(under: PolicyOptions, policies: tuple[str, ...], layers: int | None) -> dict[str, Policy]:
    """Return the baseline and the policies against it, by the words that name them."""
    from paceline.errors import PolicyError

    chosen = {under.policy: under.choose(layers)}
    for words in policies:
        name, _, settings = words.partition(":")
        if words in chosen:
            raise PolicyError(f"--against must name each policy once, and not --policy again, was {words!r}")
        own = tuple(part for part in settings.split(",") if part)
        chosen[words] = replace(under, policy=name, settings=own).choose(layers)
    return chosen


def _print(document: dict[str, Any], *, complete: bool) -> None:
    from rich.text import Text

    from paceline.cli.output import console, table
    from paceline.cli.rendering import cluster_words
    from paceline.cli.searching import facts
    from paceline.comparing.comparison import SHORT

    screen = console()
    names = " + ".join(dict.fromkeys(each["name"] for each in document["traces"]))
    judged = sum(document["requests"])
    screen.print(Text(f"{names}: {judged:,} requests on {cluster_words(document['cluster'])}", style="bold"))
    screen.print()
    cut = sum(document["warmup_requests"])
    facts(
        [
            ("intervals", f"{100 * document['confidence']:g}%, {document['method']}"),
            ("warm-up", f"{cut:,} requests of the first {document['warmup_s']:g} s are not judged"),
        ]
    )
    screen.print()
    rows = document["table"]
    if not complete:
        rows = [row for row in rows if (row["metric"], row["figure"]) in SHORT]
    cells, before = [], ""
    for row in rows:
        title = f"{_TITLES[row['metric']]} {row['figure']}"
        low, high, better = row["ratio_low"], row["ratio_high"], row["better"]
        cells.append(
            (
                "" if title == before else title,
                row["policy"],
                _value(row["value"], row["figure"]),
                _span(_value(row["low"], row["figure"]), _value(row["high"], row["figure"])),
                "" if row["ratio"] is None else f"× {row['ratio']:.3f}",
                "" if low is None else _span(f"{low:.3f}", f"{high:.3f}"),
                "" if better is None else f"{better:.1%}",
            )
        )
        before = title
    headings = ("", "policy", "value", "interval", "baseline", "interval", "better")
    screen.print(table(headings, cells, left=2))


def _span(low: str, high: str) -> str:
    return "–" if "–" in (low, high) else f"{low} to {high}"


def _value(value: float | None, figure: str) -> str:
    if value is None:
        return "–"
    if figure == "share":
        return f"{value:.2%}"
    return f"{1e3 * value:,.2f} ms" if value < 1 else f"{value:,.3f} s"

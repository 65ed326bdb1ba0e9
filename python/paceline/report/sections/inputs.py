"""What was run: traces, clusters, policies and settings, and what a reader must know of them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from paceline.report.answer import deployment, step_times
from paceline.report.figure import Table
from paceline.report.replayed import Run
from paceline.showing.cell import cell

__all__ = ["Inputs", "inputs_of", "warnings_of"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of one run: short facts, the texts of its policy and cluster, and how to repeat it."""

    name: str
    facts: Table
    policy: str
    cluster: str
    repeat: str


def inputs_of(run: Run) -> Inputs:
    """Return the inputs of a run."""
    of, totals = run.result.provenance, run.result.totals()
    facts = [
        ("Paceline", of.version),
        ("Trace", of.trace),
        ("SHA-256 of the trace", of.trace_sha256),
        ("Requests", cell(totals.requests)),
        ("Arrival rate (requests/s)", cell(_rate(run))),
        *((f"Rows left out: {why}", cell(count)) for why, count in of.dropped_rows.items()),
        ("Instances", deployment(run.result)),
        ("Times of steps", step_times(run.result)),
        ("Reads what no real scheduler knows", "yes" if of.uses_oracle else "no"),
        *((f"Setting: {name}", json.dumps(value, ensure_ascii=False)) for name, value in of.settings.items()),
    ]
    return Inputs(run.name, Table(("", ""), tuple(facts), words=2), of.policy, of.cluster, _repeat(run))


def _rate(run: Run) -> float | None:
    """Return arrivals over the time from the first to the last; None of fewer than two moments."""
    arrivals = run.result.column("arrival")
    first, last = arrivals.min(), arrivals.max()
    if not isinstance(first, float) or not isinstance(last, float) or first == last:
        return None
    return (len(arrivals) - 1) / (last - first)


def _repeat(run: Run) -> str:
    """Return the Python that replays the run again, from the two documents below it and the trace."""
    of = run.result.provenance
    arguments = "".join(f", {name}={_argument(value)}" for name, value in of.settings.items())
    return (
        "import paceline\nfrom pathlib import Path\n\n"
        f"trace = paceline.read_trace({of.trace!r})  # its path, scaled and cut as it was\n"
        f'assert trace.sha256 == "{of.trace_sha256}"\n'
        'cluster = paceline.Cluster.from_toml(Path("cluster.toml").read_text())\n'
        'policy = paceline.Policy.from_toml(Path("policy.toml").read_text())\n'
        f"paceline.replay(trace, cluster, policy{arguments})\n"
    )


def _argument(value: object) -> str:
    # Objects are kept as the text that makes them, such as Pace(…).
    return value if isinstance(value, str) and value.endswith(")") else repr(value)


def warnings_of(runs: tuple[Run, ...]) -> list[str]:
    """Return what limits the conclusions that a reader may draw."""
    found = []
    for run in runs:
        totals = run.result.totals()
        prefix = f"{run.name}: " if len(runs) > 1 else ""
        unfinished = totals.running + totals.waiting + totals.not_arrived + totals.held
        if unfinished:
            found.append(
                f"{prefix}{unfinished:,} of {totals.requests:,} requests had not finished when the replay "
                "stopped."
            )
        if totals.rejected or totals.gave_up:
            gone = totals.rejected + totals.gave_up
            were = "request was" if gone == 1 else "requests were"
            found.append(f"{prefix}{gone:,} {were} rejected or gave up; latencies are of the others.")
        if totals.cancelled:
            were = "request was" if totals.cancelled == 1 else "requests were"
            found.append(
                f"{prefix}{totals.cancelled:,} {were} cancelled by clients; a TTFT counts if there is one."
            )
        if totals.sent_again:
            found.append(
                f"{prefix}clients sent requests again {totals.sent_again:,} times; "
                "latencies are of the last time."
            )
        if totals.uses_oracle:
            found.append(f"{prefix}the policy read what no real scheduler knows, such as output lengths.")
        found += [
            f"{prefix}costs were fitted to another configuration ({fit}): times are a guess."
            for fit in totals.borrowed_fits
        ]
        beyond = sum(totals.extrapolated.values())
        if beyond and totals.steps:
            found.append(f"{prefix}{beyond / totals.steps:.1%} of the steps lay beyond what was measured.")
    if len({run.result.provenance.trace_sha256 for run in runs}) > 1:
        found.append(
            "The runs replayed different requests: differences between them are not of the policies alone."
        )
    return found

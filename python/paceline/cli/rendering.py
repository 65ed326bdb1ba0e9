"""A result as a document for machines, and the document as tables for people."""

from __future__ import annotations

import math
import textwrap
import tomllib
from typing import TYPE_CHECKING, Any, Final

from paceline.cli.output import console, table

if TYPE_CHECKING:
    from paceline.objectives import SLO
    from paceline.result import Result

__all__ = ["as_document", "cluster_words", "print_result"]

_TITLES: Final = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "itl": "ITL",
    "max_itl": "longest ITL",
    "e2e": "E2E",
    "normalized_latency": "E2E per token",
    "queueing": "queueing",
    "ttfat": "TTFAT",
}

_PREFIXES: Final = ("", "k", "M", "G", "T", "P", "E", "Z")

_FIGURES: Final = ("mean", "p50", "p90", "p95", "p99", "max")


def as_document(result: Result, slo: SLO | None, warmup_s: float = 0.0) -> dict[str, Any]:
    """Return everything that the command prints, by name, in seconds and tokens.

    With a warm-up, the summary and the objective are of the requests that arrive after it, and the totals of
    the whole replay.
    """
    from paceline.cli.judging import judged

    provenance = result.provenance
    return {
        "paceline": provenance.version,
        "trace": {"name": provenance.trace, "sha256": provenance.trace_sha256, "requests": len(result)},
        "cluster": provenance.cluster,
        "policy": provenance.policy,
        "settings": provenance.settings,
        "totals": result.totals().to_dict(),
        "summary": {row.pop("metric"): row for row in result.summary().rows(named=True)},
        "itl_relative_error": result.itl.relative_error,
        "slo": _slo(result, slo),
        "instances": result.instances.rows(named=True),
        **({} if warmup_s == 0 else judged(result, slo, warmup_s)),
    }


def _slo(result: Result, slo: SLO | None) -> dict[str, Any] | None:
    if slo is None:
        return None
    return {
        "bounds": slo.bounds(),
        "attainment": result.attainment(slo),
        "goodput": result.goodput(slo),
    }


def print_result(document: dict[str, Any]) -> None:
    """Write the document's figures as tables to standard output."""
    from rich.text import Text

    screen = console()
    requests = document["trace"]["requests"]
    policy = tomllib.loads(document["policy"])["name"]
    cluster = cluster_words(document["cluster"])
    title = f"{document['trace']['name']}: {requests:,} requests on {cluster}, {policy}"
    screen.print(Text(title, style="bold"))
    screen.print()
    rows = [_latency(name, row) for name, row in document["summary"].items() if row["count"]]
    if rows:
        screen.print(table(("", *_FIGURES), rows))
        screen.print()
    facts = _warmup(document) + _facts(document["totals"]) + _objectives(document["slo"])
    width = max(len(name) for name, _ in facts)
    for name, fact in facts:
        for line in textwrap.wrap(fact, max(20, screen.width - width - 2)):
            screen.print(Text(f"{name:<{width}}  {line}"))
            name = ""


def _facts(totals: dict[str, Any]) -> list[tuple[str, str]]:
    """Name the single figures, each short enough for a line of a narrow terminal."""
    dropped = totals["dropped_rows"].items()
    tokens = f"{totals['output_tokens_per_s']:,.0f} output tokens/s"
    batch = f"{totals['mean_batch']:,.1f} running on average, {totals['mean_batch_busy']:,.1f} while busy"
    return [
        ("requests", _requests(totals)),
        *(("rejected", f"{count:,}: {why}") for why, count in totals["rejected_by_reason"].items()),
        *(("left out", f"{count:,} rows of the file: {why}") for why, count in dropped),
        ("throughput", f"{_figure(totals['requests_per_s'])} requests/s over {totals['makespan_s']:,.1f} s"),
        ("", f"{tokens}, {totals['total_tokens_per_s']:,.0f} with prompts"),
        ("batch", batch),
        *_instance_hours(totals),
        ("KV cache", f"{totals['mean_kv_use']:.1%} in use on average, {totals['peak_kv_use']:.1%} at most"),
        ("preemptions", f"{totals['preemptions']:,} in {totals['steps']:,} steps"),
        *(("extrapolated", fact) for fact in _beyond(totals)),
        *_memory(totals),
        *_traffic(totals),
    ]


def _instance_hours(totals: dict[str, Any]) -> list[tuple[str, str]]:
    """Say for how long instances were switched on, if any was off."""
    on, whole = totals["on_s"] / 3600, sum(totals["instance_s"].values()) / 3600
    # The sums of the pools are rounded one by one.
    always = on >= whole * (1 - 1e-9)
    return [] if always else [("switched on", f"{_figure(on)} of {_figure(whole)} instance-hours")]


def _beyond(totals: dict[str, Any]) -> list[str]:
    """Say how many steps lay past the end of a table of measured kernels, by axis."""
    steps = totals["steps"]
    return [
        f"{of / steps:.1%} of the steps, past the measured {axis}"
        for axis, of in totals["extrapolated"].items()
    ]


def _memory(totals: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the figures that only some policies have, if this one had them."""
    facts = []
    out, back, overflows = (
        totals[name] for name in ("swapped_out_blocks", "swapped_in_blocks", "swap_overflows")
    )
    if out or overflows:
        facts.append(("swapped", f"{out:,} blocks out, {back:,} back; {overflows:,} times without room"))
    if totals["prefix_queries"]:
        found = f"{totals['prefix_hit_rate']:.1%} of {totals['prefix_queries']:,} tokens found"
        facts.append(("prefix cache", f"{found}, {totals['evictions']:,} blocks evicted"))
    if totals["kv_transfers"]:
        sent = f"{_si(totals['kv_transfer_bytes'])}B between instances"
        facts.append(("KV moved", f"{sent} in {totals['kv_transfers']:,} transfers"))
    if totals.get("early_turns"):
        facts.append(
            ("early turns", f"{totals['early_turns']:,} arrive before the previous answer has ended")
        )
    if totals["uses_oracle"]:
        facts.append(("oracle", "the policy saw what no real scheduler knows: output lengths"))
    facts += [("borrowed fit", f"{fit}: its times are a guess") for fit in totals["borrowed_fits"]]
    return facts


def _traffic(totals: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the bytes, FLOPs and energy of the GPUs, if known."""
    if totals["hbm_bytes"] is None:
        return []
    parts = {
        "experts": totals["expert_bytes"],
        "other weights": totals["weight_bytes"],
        "KV": totals["kv_read_bytes"] + totals["kv_written_bytes"],
    }
    whole = totals["hbm_bytes"] or 1
    shares = ", ".join(f"{part / whole:.0%} {name}" for name, part in parts.items() if part)
    links = f", {_si(totals['link_bytes'])}B between GPUs of an instance" if totals["link_bytes"] else ""
    facts = [
        ("traffic", f"{_si(totals['hbm_bytes'])}B of memory" + (f": {shares}" if shares else "")),
        ("arithmetic", f"{_si(totals['flops'])}FLOP{links}"),
    ]
    if totals["energy_j"] is not None:
        each = totals["energy_per_token_j"]
        per_token = "" if each is None else f", {_figure(each * 1e3)} mJ a prompt or output token"
        facts.append(("energy", f"{_si(totals['energy_j'])}J{per_token}"))
    return facts


def _si(value: float) -> str:
    """About four significant digits and a decimal prefix."""
    power = min(max(0, math.floor(math.log10(value) / 3)) if value else 0, len(_PREFIXES) - 1)
    return f"{_figure(value / 1000**power)} {_PREFIXES[power]}"


def _latency(metric: str, row: dict[str, float]) -> tuple[str, ...]:
    """Give a row one unit: milliseconds where the median is below a second, unless the tail is long."""
    milliseconds = row["p50"] < 1 and row["max"] < 100
    factor, unit = (1e3, "ms") if milliseconds else (1, "s")
    return (f"{_TITLES[metric]} ({unit})", *(_figure(row[name] * factor) for name in _FIGURES))


def _figure(value: float) -> str:
    """About four significant digits, and never an exponent."""
    decimals = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return f"{value:,.{decimals}f}"


def _requests(totals: dict[str, Any]) -> str:
    others = [
        status
        for status in ("running", "waiting", "not_arrived", "rejected", "held", "gave_up", "cancelled")
        if totals.get(status)
    ]
    return ", ".join(f"{totals[status]:,} {status.replace('_', ' ')}" for status in ("finished", *others))


def _warmup(document: dict[str, Any]) -> list[tuple[str, str]]:
    if "warmup" not in document:
        return []
    cut = document["warmup"]
    return [
        (
            "warm-up",
            f"{cut['requests']:,} requests of the first {cut['seconds']:g} s are not in the latencies",
        )
    ]


def _objectives(slo: dict[str, Any] | None) -> list[tuple[str, str]]:
    if slo is None:
        return []
    titles = {**_TITLES, "itl": "longest ITL"}
    bounds = ", ".join(f"{titles[name]} ≤ {bound:g} s" for name, bound in slo["bounds"].items())
    # Rounded down, so that 100.00% means all of them.
    percent = math.floor(slo["attainment"] * 10_000) / 100 if math.isfinite(slo["attainment"]) else math.nan
    return [
        ("attainment", f"{percent:.2f}% within {bounds}"),
        ("goodput", f"{_figure(slo['goodput'])} requests/s"),
    ]


def cluster_words(toml: str) -> str:
    """Name the instances: how many, of which model, on how many of which GPU."""
    return ", ".join(_instances(table) for table in tomllib.loads(toml)["instances"])


def _instances(table: dict[str, Any]) -> str:
    model, gpu = (of["name"] if isinstance(of, dict) else of for of in (table.get("model"), table.get("gpu")))
    gpus = table.get("tensor_parallel", 1) * table.get("pipeline_parallel", 1)
    words = f"{table.get('count', 1):,} × {model or 'instance'}"
    if gpu is None:
        return words
    return f"{words} on {gpu}" if gpus == 1 else f"{words} on {gpus} × {gpu}"

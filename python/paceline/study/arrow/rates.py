"""Sustainable rates, Figure 7, Figure 8 and Figure 9."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from paceline.study.arrow.paper import PAPER
from paceline.study.arrow.searches import TARGET, Searches
from paceline.study.arrow.systems import ABLATIONS, SYSTEMS, TITLES
from paceline.study.arrow.workloads import WORKLOADS, per_minute
from paceline.study.charts import lines
from paceline.study.model import Fact, Figure, Table
from paceline.study.pages import Content

__all__ = ["rates_page", "scaling_page", "strategies_page", "workloads_page"]

_SCALED = ("code", "conversation")


def workloads_page(found: Searches) -> dict[str, Content]:
    """Return the traces and their objectives."""
    rows = []
    for name, at in found.loads.items():
        frame = at.trace.frame
        rows.append(
            {
                "trace": at.title,
                "from": "file" if at.real else "drawn",
                "requests": len(at.trace),
                "requests/s": found.of(name, "arrow").own,
                "mean prompt": float(frame["prompt_tokens"].mean()),  # type: ignore[arg-type]
                "mean output": float(frame["output_tokens"].mean()),  # type: ignore[arg-type]
                "c_v a minute": per_minute(at.trace),
                "paper's": PAPER["figure-1", name].value if name in PAPER.names("figure-1") else None,
                "TTFT, s": at.slo.ttft,
                "TPOT, s": at.slo.tpot,
            }
        )
    formats = {"requests/s": ".2f", "mean prompt": ".0f", "mean output": ".0f", "c_v a minute": ".2f"}
    return {"traces": Table(pl.DataFrame(rows), formats)}


def rates_page(found: Searches) -> dict[str, Content]:
    """Return sustainable rates, the paper's ratios beside ours, and Figure 7."""
    systems = (*SYSTEMS, "xllm", "replicas", "distserve")
    rows = [
        {"trace": found.loads[name].title, **{TITLES[one]: found.rate(name, one) for one in systems}}
        for name in WORKLOADS
    ]
    facts = [
        Fact.compare(
            PAPER["ratios", over, name],
            found.ratio(name, over),
            "predicted",
            name=f"{found.loads[name].title}: Arrow over {TITLES[over]}",
            notes=("drawn trace",) if not found.loads[name].real else (),
        )
        for over in ("tp8", "disaggregated")
        for name in WORKLOADS
    ]
    return {
        "rates": Table(pl.DataFrame(rows), {TITLES[one]: ".3g" for one in systems}),
        "ratios": facts,
        **{f"figure-7-{what}": _curves(found, SYSTEMS, what) for what in ("attainment", "ttft", "tpot")},
    }


def strategies_page(found: Searches) -> dict[str, Content]:
    """Return the ablations and Figure 8."""
    rows = []
    for name in WORKLOADS:
        turns = found.of(name, "round_robin").curve.select("rate", turn="attainment")
        least = found.of(name, "minimal_load").curve.select("rate", least="attainment")
        both = least.join(turns, on="rate").filter(pl.col("least") >= 0.5)
        gain = float((both["least"] - both["turn"]).max() or 0.0)  # type: ignore[arg-type]
        rows.append(
            {
                "trace": found.loads[name].title,
                **{TITLES[one]: found.rate(name, one) for one in ABLATIONS},
                "minimal load over round robin, attainment at most": gain,
            }
        )
    facts = [
        Fact.compare(
            PAPER["strategies", name],
            found.ratio(name, "minimal_load"),
            "predicted",
            name=f"{found.loads[name].title}: Arrow over minimal load",
        )
        for name in PAPER.names("strategies")
    ]
    formats = {TITLES[one]: ".3g" for one in ABLATIONS}
    formats["minimal load over round robin, attainment at most"] = "+.1%"
    return {
        "strategies": Table(pl.DataFrame(rows), formats),
        "strategy-ratios": facts,
        "figure-8": _curves(found, ABLATIONS, "attainment"),
    }


def scaling_page(found: Searches) -> dict[str, Content]:
    """Return attainment by the number of GPUs, at the rate that Arrow sustains on eight."""
    rows = [
        {
            "trace": found.loads[name].title,
            "rate, req/s": rate,
            "GPUs": gpus,
            "strategy": TITLES[system].partition(",")[0],
            "attainment": found.replayed(name, system, rate, gpus).attainment(found.loads[name].slo),
        }
        for name in _SCALED
        for rate in (found.rate(name, "arrow"),)
        for gpus in (2, 4, 6, 8)
        for system in ("arrow", "minimal_load")
    ]
    frame = pl.DataFrame(rows)
    table = frame.pivot("GPUs", index=["trace", "rate, req/s", "strategy"], values="attainment")
    formats = {"rate, req/s": ".3g", **{str(gpus): ".1%" for gpus in (2, 4, 6, 8)}}
    figure = lines(frame, x="GPUs", y="attainment", by="strategy", panel="trace", level=TARGET)
    return {"gpus": Table(table, formats), "figure-9": figure}


def _curves(found: Searches, systems: Sequence[str], what: str) -> Figure:
    """Return a figure of a measure over rates, up to twice the rate that the best system sustains."""
    column = what if what == "attainment" else f"p90_{what}"
    label = what if what == "attainment" else f"P90 {what.upper()} over its objective"
    parts = []
    for name in WORKLOADS:
        at = found.loads[name]
        most = 1.5 * max(found.rate(name, one) for one in systems)
        bound = 1.0 if what == "attainment" else getattr(at.slo, what)
        for one in systems:
            curve = found.of(name, one).curve.filter(pl.col("rate") <= most, pl.col("rate") >= most / 40)
            value = pl.col(column).cast(pl.Float64) / bound
            parts.append(
                curve.select(
                    pl.lit(at.title).alias("trace"),
                    pl.lit(TITLES[one]).alias("system"),
                    pl.col("rate").alias("rate, req/s"),
                    # A curve leaves the picture where it exceeds four times the objective.
                    value.clip(0, 4).alias(label),
                )
            )
    level = TARGET if what == "attainment" else 1.0
    return lines(pl.concat(parts), x="rate, req/s", y=label, by="system", panel="trace", level=level)

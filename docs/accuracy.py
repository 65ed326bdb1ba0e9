"""Write docs/accuracy.md and its picture: `.venv/bin/python docs/accuracy.py [FILE.json WITHOUT.json]`.

FILE is what `paceline validate --suite DIR --out FILE` wrote, and WITHOUT the same with `--no-hosts`. Without
files, the suite is run twice on ../shared/measured, with the kernels that are imported.
The page has scores, and no measurements but those of the ten worst points.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from paceline.hosts import EngineHost, host_names
from paceline.kernels.store import stored
from paceline.validation import suite
from paceline.validation.points.scoring import scores

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared/measured"
PAGE = HERE / "accuracy.md"
PICTURE = HERE / "pictures/accuracy.svg"
#: The parts of the page that this script fills in; the text around them is written by hand.
PLACE = re.compile(r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)

METRICS = ("ttft", "tpot", "e2e", "throughput")
TITLES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E", "throughput": "tokens/s"}
KINDS = {
    "regime": "By load",
    "engine": "By engine and version",
    "model": "By model",
    "gpu": "By GPU",
    "precision": "By type of weights",
    "parallel": "By split",
}
REGIMES = ("light", "busy", "heavy", "edge of capacity")
ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
QUANTILES = tuple(f"p{100 * share:.0f}" for share in SHARES)
DOMAIN = (0.08, 6.0)
Point = Mapping[str, Any]

#: What a point's load is called where the data do not say what a replay needs: which of it is assumed.
ASSUMED = (
    "prefill apart, network assumed",
    "prefill apart, ranks of attention, network assumed",
)
#: The aims of issue 33 by kind of point: TPOT's median and ninetieth percentile, then TTFT's, in per cent.
AIMS: Sequence[tuple[str, Callable[[Point], bool], tuple[int, int, int, int]]] = (
    (
        "open loop, light to near saturation, tables",
        lambda p: p["load"] == "open loop" and p["regime"] != "edge of capacity" and p["cost"] == "tables",
        (2, 5, 4, 10),
    ),
    ("overload with a capped client", lambda p: p["load"] == "capped", (3, 6, 8, 20)),
    (
        "closed loop, dense, Hopper, vLLM",
        lambda p: waits(p) and p["layers"] == "dense" and vllm(p) and p["gpu"].startswith("h"),
        (4, 10, 10, 25),
    ),
    (
        "closed loop, mixtures and MXFP4, vLLM",
        lambda p: waits(p) and p["layers"] == "mixture" and vllm(p),
        (7, 18, 15, 35),
    ),
    (
        "SGLang, TensorRT-LLM",
        lambda p: not vllm(p) and p["load"] not in ASSUMED,
        (7, 18, 20, 40),
    ),
    ("of these, TensorRT-LLM's ranks of attention", lambda p: balanced(p), (7, 18, 20, 40)),
    ("prefill apart", lambda p: p["load"] == "prefill apart", (12, 25, 15, 30)),
    *((load, lambda p, load=load: p["load"] == load, (12, 25, 15, 30)) for load in ASSUMED),
)


def vllm(point: Point) -> bool:
    """Whether the engine is vLLM."""
    return str(point["engine"]).startswith("vllm")


def balanced(point: Point) -> bool:
    """Whether the engine has ranks of attention whose prompts wait for each other."""
    ranks = str(point["engine"]).startswith("trtllm") and str(point["parallel"]).startswith("DP")
    return ranks and point["load"] == "closed loop"


def waits(point: Point) -> bool:
    """Whether requests wait for answers, without a schedule."""
    return point["load"] in ("closed loop", "saturated")


def share(value: float, *, sign: bool = False) -> str:
    """Write a relative error in per cent, with as many digits as it is good for."""
    number = 100 * value
    digits = 1 if abs(number) < 9.95 else 0
    return f"{number:+.{digits}f}" if sign else f"{number:.{digits}f}"


def cells(scored: Mapping[str, Any]) -> list[str]:
    """Return the points, then each metric's median and ninetieth percentile of sizes, and its bias."""
    count = max((of["n"] for of in scored.values()), default=0)
    return [f"{count:,}"] + [
        ""
        if metric not in scored
        else f"{share(scored[metric]['median_abs'])}, {share(scored[metric]['p90_abs'])} "
        f"({share(scored[metric]['bias'], sign=True)})"
        for metric in METRICS
    ]


def table(head: str, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Return a Markdown table with a row of scores for each name."""
    lines = [
        f"| {head} | points | {' | '.join(TITLES[metric] for metric in METRICS)} |",
        f"|---|---:|{'---:|' * len(METRICS)}",
    ]
    lines += [f"| {name} | {' | '.join(cells(of))} |" for name, of in rows]
    return "\n".join(lines)


def overview(found: Mapping[str, Any]) -> str:
    """Return the scores of all points, by cost, and of those on which nothing was fitted."""
    costs = found["costs"]
    return table(
        "",
        [
            ("all", found["overall"]),
            ("kernel tables", costs["all"]["tables"]),
            ("roofline", costs["all"]["roofline"]),
            ("kernel tables, where both can", costs["both"]["tables"]),
            ("roofline, where both can", costs["both"]["roofline"]),
            ("points on which nothing was fitted", found["not_fitted"]),
        ],
    )


def aims(found: Mapping[str, Any]) -> str:
    """Return each kind of point with its aims beside what was reached, and the roofline's."""
    lines = [
        "| | points | TPOT: aim | reached | TTFT: aim | reached |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    rows = [(name, scores(errors_of(found, holds)), aim) for name, holds, aim in AIMS]
    rows.append(("roofline", found["costs"]["all"]["roofline"], (12, 30, 20, 40)))
    for name, of, aim in rows:
        line = [name, f"{max((one['n'] for one in of.values()), default=0):,}"]
        for metric, (median, far) in (("tpot", aim[:2]), ("ttft", aim[2:])):
            line += [f"{median}, {far}", reached(of.get(metric), median, far)]
        lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def reached(of: Mapping[str, float] | None, median: int, far: int) -> str:
    """Return a score, bold where it meets its aims."""
    if of is None:
        return ""
    words = f"{share(of['median_abs'])}, {share(of['p90_abs'])}"
    met = 100 * of["median_abs"] <= median and 100 * of["p90_abs"] <= far
    return f"**{words}**" if met else words


def errors_of(found: Mapping[str, Any], holds: Callable[[Point], bool]) -> list[Mapping[str, float]]:
    """Return the errors of the points for which something holds."""
    return [one["errors"] for one in found["points"] if one["cost"] is not None and holds(one)]


def groups(found: Mapping[str, Any]) -> str:
    """Return a table of scores for each kind of group."""
    parts = []
    for kind, title in KINDS.items():
        rows = sorted(found["groups"][kind].items(), key=lambda row: order(row[0]))
        parts.append(f"### {title}\n\n{table('', rows)}")
    return "\n\n".join(parts)


def order(name: str) -> tuple[int, str]:
    """Put regimes in their order, and other names by the alphabet."""
    return (REGIMES.index(name), "") if name in REGIMES else (len(REGIMES), name)


def peers(found: Mapping[str, Any]) -> str:
    """Return the scores of other predictors, and ours on the same points."""
    rows = []
    for name, of in found["peers"].items():
        rows += [(name, of["peer"]), (f"ours, where {name} has one", of["ours"])]
    return table("predictor", rows)


def ranking(found: Mapping[str, Any]) -> str:
    """Return Kendall's tau of configurations by model and GPU, and over all."""
    of = found["ranking"]
    lines = ["| | configurations | pairs | Kendall's tau |", "|---|---:|---:|---:|"]
    for name, one in [*of["groups"].items(), ("all", of["overall"])]:
        tau = f"{one['tau']:.2f}" if one["pairs"] else ""
        lines.append(f"| {name} | {one['configurations']:,} | {one['pairs']:,} | {tau} |")
    return "\n".join(lines)


def counts(reasons: Mapping[str, int]) -> str:
    """Return how many points have each reason."""
    lines = ["| points | reason |", "|---:|---|"]
    return "\n".join([*lines, *(f"| {count:,} | {reason} |" for reason, count in reasons.items())])


def fitted() -> str:
    """Return the host times: each with its versions, its source and its spread."""
    lines = ["| host | versions | front end | step | fitted on | spread |", "|---|---|---:|---:|---|---|"]
    for name in host_names():
        host = EngineHost.load(name)
        step = " + ".join(
            part
            for part, value in (
                (f"{1e3 * host.step_s:g} ms", host.step_s),
                (f"{1e6 * host.request_s:g} µs a request", host.request_s),
                (f"{1e3 * host.latent_layer_s:g} ms a layer of a prompt", host.latent_layer_s),
            )
            if value
        )
        front = f"{1e3 * host.frontend_s:g} ms" if host.frontend_s else ""
        front += f" + {1e6 * host.frontend_token_s:g} µs a token" if host.frontend_token_s else ""
        lines.append(
            f"| `{name}` | {host.first} to {host.last} | {front} | {step} | {host.source} | {host.spread} |"
        )
    return "\n".join(lines)


def worst(found: Mapping[str, Any]) -> str:
    """Return the worst points with the commands that replay them."""
    lines = ["| metric | measured | predicted | by | command |", "|---|---:|---:|---|---|"]
    for one in found["worst"]:
        command = one["command"].replace(str(DATA), "../shared/measured")
        values = f"{one['measured']:,.3g} | {one['predicted']:,.3g}"
        lines.append(f"| {TITLES[one['metric']]} | {values} | {one['cost']} | `{command}` |")
    return "\n".join(lines)


def kernels() -> str:
    """Return where the imported kernels come from."""
    sources = sorted({entry.origin.get("source", "") for entry in stored() if entry.what == "operators"})
    return ", ".join(f"`{source}`" for source in sources if source) or "none"


def changed(found: Mapping[str, Any], without: Mapping[str, Any]) -> str:
    """Return the scores of the points whose engine has a host, with its times and without."""
    rows = []
    for name in host_names():
        host = EngineHost.load(name)
        for which, result in (("with", found), ("without", without)):
            mine = scores(errors_of(result, lambda point, host=host: held(host, point)))
            rows.append((f"`{name}`, {which}", mine))
    return table("", rows)


def held(host: EngineHost, point: Point) -> bool:
    """Whether a point's engine and version are a host's; a version that is not known counts as a new one."""
    engine, _, version = str(point["engine"]).partition(" ")
    newest = version == "?" and host == EngineHost.newest(engine)
    known = point["load"] not in ASSUMED
    return engine == host.engine and known and (newest or host.holds_for(version))


def page(text: str, found: Mapping[str, Any], without: Mapping[str, Any]) -> str:
    """Return the page with each part between its marks filled in."""
    refused = sum(found["refused"].values())
    counted = (
        f"{found['replayed']:,} of {found['of']:,} points that can be modelled were replayed, and "
        f"{refused:,} are refused. Kernels: {kernels()}."
    )
    parts = {
        "counted": counted,
        "overview": overview(found),
        "aims": aims(found),
        "groups": groups(found),
        "peers": peers(found),
        "ranking": ranking(found),
        "refused": counts(found["refused"]),
        "without": counts(found["without_tables"]),
        "fitted": fitted(),
        "changed": changed(found, without),
        "worst": worst(found),
    }
    return PLACE.sub(lambda place: f"{place[1]}\n{parts[place[2]]}\n\n{place[3]}", text)


def ratios(found: Mapping[str, Any]) -> pl.DataFrame:
    """Return quantiles of predicted over measured, by metric, engine and load."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for one in found["points"]:
        if one["load"] in ASSUMED:
            continue
        engine = ENGINES[str(one["engine"]).split()[0]]
        for metric, error in one["errors"].items():
            groups.setdefault((TITLES[metric], engine, one["regime"]), []).append(1 + error)
    rows = [
        {
            "metric": metric,
            "engine": engine,
            "regime": regime,
            "points": f"{len(values):,}",
            **dict(zip(QUANTILES, np.quantile(values, SHARES).clip(*DOMAIN).tolist(), strict=True)),
        }
        for (metric, engine, regime), values in groups.items()
    ]
    return pl.DataFrame(rows)


def picture(table: pl.DataFrame) -> alt.ConcatChart:
    """Draw a row for each engine and load: the middle four fifths, the middle half, and the median."""
    panels = [panel(table.filter(pl.col("metric") == metric), metric) for metric in TITLES.values()]
    return (
        alt.concat(*panels, columns=2)
        .configure(background="white", font="system-ui, sans-serif")
        .configure_view(stroke=None)
    )


def panel(table: pl.DataFrame, metric: str) -> alt.LayerChart:
    """Draw one metric."""
    scale = alt.Scale(type="log", domain=DOMAIN)
    base = alt.Chart(table).encode(
        y=alt.Y("regime:N").sort(REGIMES).title(None),
        yOffset=alt.YOffset("engine:N").sort(list(ENGINES.values())),
        color=alt.Color("engine:N")
        .scale(domain=list(ENGINES.values()), range=["#0072B2", "#E69F00", "#D55E00"])
        .title(None)
        .legend(orient="top"),
    )
    x = (
        alt.X("p10:Q", scale=scale)
        .axis(values=[0.1, 0.2, 0.5, 1, 2, 5], format="~g")
        .title(f"{metric}: predicted / measured")
    )
    most = base.mark_rule().encode(x=x, x2="p90:Q")
    half = base.mark_bar(height=7).encode(x=alt.X("p25:Q", scale=scale), x2="p75:Q")
    middle = base.mark_tick(color="black", thickness=2, height=9).encode(x=alt.X("p50:Q", scale=scale))
    exact = alt.Chart(pl.DataFrame({"at": [1.0]})).mark_rule(strokeDash=[4, 3], color="#444444")
    return alt.layer(exact.encode(x=alt.X("at:Q", scale=scale)), most, half, middle, data=table).properties(
        width=330, height=150
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        result, plain = (json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:3])
    else:
        result, plain = suite(DATA).to_json(), suite(DATA, hosts=False).to_json()
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), result, plain), encoding="utf-8")
    PICTURE.parent.mkdir(exist_ok=True)
    picture(ratios(result)).save(PICTURE)

"""What was fitted, and to what: Figure 2 and Table 2."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from paceline.calibration import Candidate, Fit
from paceline.model import Model
from paceline.study.charts import lines
from paceline.study.layered_prefill import paper
from paceline.study.layered_prefill.setting import ARXIV, Case, Runs, between, chunked, middle
from paceline.study.model import Fact, Facts, Figure, Page, Table

__all__ = ["page", "plan"]

_PROMPT = 8192
_CHUNKS = (256, 512, 1024, 2048, 4096, 8192)


def _cases() -> list[Case]:
    return [Case(workload=ARXIV, rate=row.rate, policy=chunked(row.chunk)) for row in paper.TABLE_2]


def plan(runs: Runs) -> None:
    """Announce the replays."""
    runs.plan(*_cases(), *(replace(case, table_1=True) for case in _cases()))


def page(runs: Runs) -> Page:
    """Make the page."""
    fit = runs.fit
    spread = [
        (row.chunk, f"{of:.2f}" if of else "")
        for row, case in zip(paper.TABLE_2, _cases(), strict=True)
        for of in [_spread(runs, case)]
    ]
    return Page(
        name="fitted",
        title="What was fitted: Figure 2 and Table 2",
        parts=(
            (
                "The efficiencies of two H100 under Qwen3-30B-A3B, by `paceline calibrate` from the "
                "paper's chunked side. Nothing else of this study was fitted but the lengths of Table "
                "4. The observations do not determine these numbers: of "
                f"{fit.starts} fits from other starts {len(fit.equals)} meet them as well (a sum of squares "
                "at most 1 above the least), with numbers between those in the table. What is predicted "
                "with each of them is printed beside predictions, as fits of equal cost. experts_matmul is "
                f"{fit.efficiency.experts_matmul:g}: it is not fitted, since experts are bound by memory in "
                "all that was observed.\n\nOf Table 2's loads one reading is taken: all three matrices of "
                "an expert, on both GPUs, prefill and decode together. They are lower than Table 1 would "
                "have them: 18 chunks a prompt of 512 tokens each, at 98% of 58 GB, are over 1,000 GB "
                "before any decode (below: the loads with Table 1's coverage). So a chunk of one paper must "
                "need fewer experts than 512 decodes of as many conversations, and how many is fitted."
            ),
            Table(
                name="fit",
                caption="The fitted numbers (fitted)",
                frame=pl.DataFrame(
                    {
                        "number": list(fit.fitted),
                        "value": list(fit.fitted.values()),
                        "fits of equal cost": [_ends(fit, name) for name in fit.fitted],
                    }
                ),
                formats={"value": ".4g"},
            ),
            Facts(
                name="fit-residuals", caption="The observations, and the fit (fitted)", facts=_residuals(runs)
            ),
            *_figure_2(runs),
            Facts(name="table-2", caption="Table 2: Qwen on arXiv in chunks (fitted)", facts=_table_2(runs)),
            Facts(
                name="table-2-table-1",
                caption="Loads with Table 1's coverage instead of the fitted one (predicted)",
                facts=tuple(
                    Fact(
                        name=f"expert load, chunks of {row.chunk} at {row.rate}/s",
                        unit="GB/req",
                        paper=1e-9 * row.load,
                        ours=1e-9 * middle(runs.served(replace(case, table_1=True)), "load"),
                        kind="predicted",
                    )
                    for row, case in zip(paper.TABLE_2, _cases(), strict=True)
                ),
            ),
            Facts(
                name="decode-step",
                caption=(
                    "Section 5.1 sets the objective of TBT at about 5 times the step of 32 decodes at 4,096 "
                    "tokens, which was not fitted to (predicted)"
                ),
                facts=(
                    Fact(
                        name="step of 32 decodes at 4,096 tokens",
                        unit="ms",
                        paper=1e3 * paper.OBJECTIVES["qwen", ARXIV][1] / 5,
                        ours=_decode_step_ms(runs.fit),
                        kind="predicted",
                        note=_decode_steps(runs),
                    ),
                ),
            ),
            (
                "Between drawn traces the mean TTFT spreads widely. From the lower to the upper quartile "
                "it is this "
                "share of the median: "
                + ", ".join(f"chunks of {chunk}: {share}" for chunk, share in spread)
                + ".\n"
            ),
        ),
    )


def _residuals(runs: Runs) -> tuple[Fact, ...]:
    signs = {None: "", "at_least": "a lower bound", "at_most": "an upper bound"}
    return tuple(
        Fact(
            name=of.name,
            paper=of.observed,
            ours=of.fitted,
            kind="fitted",
            note="; ".join(part for part in (of.source, signs[of.bound]) if part),
        )
        for of in runs.fit.residuals
    )


def _table_2(runs: Runs) -> tuple[Fact, ...]:
    facts = []
    for row, case in zip(paper.TABLE_2, _cases(), strict=True):
        served = runs.served(case)
        where = f"chunks of {row.chunk} at {row.rate}/s"
        for name, unit, stated, of, scale in (
            ("mean TTFT", "s", row.latencies.ttft, "ttft", 1.0),
            ("p99 TTFT", "s", row.latencies.ttft_p99, "ttft_p99", 1.0),
            ("mean TBT", "ms", row.latencies.tbt, "tbt", 1e3),
            ("p99 TBT", "ms", row.latencies.tbt_p99, "tbt_p99", 1e3),
            ("expert load", "GB/req", row.load, "load", 1e-9),
            ("energy", "mJ/tok", row.energy, "energy", 1e3),
        ):
            facts.append(
                Fact(
                    name=f"{name}, {where}",
                    unit=unit,
                    paper=scale * stated,
                    ours=scale * middle(served, of),
                    kind="fitted",
                    note=between(served, of, scale, scale * stated),
                )
            )
    return tuple(facts)


def _figure_2(runs: Runs) -> tuple[Table, Figure, Figure]:
    fit = runs.fit
    model = Model.load(fit.model)
    candidate = _candidate(fit)
    experts = model.experts
    assert experts is not None, "Invariant: Qwen3-30B-A3B is a mixture"
    whole = model.layers * experts.count * 3 * model.hidden_size * experts.intermediate_size * 2
    rows, kinds = [], []
    for chunk in _CHUNKS:
        parts = [candidate.kernels(prefill=chunk, history=at) for at in range(0, _PROMPT, chunk)]
        times = {name: 1e3 * sum(part[name] for part in parts) for name in parts[0]}
        # The paper times kernels: what none of them explains is left out.
        times["step"] -= 1e3 * len(parts) * fit.efficiency.step_s
        assert fit.coverage is not None, "Invariant: the fit has a coverage"
        load = len(parts) * whole * fit.coverage.at(chunk) / 1e9
        total = sum(times.values())
        rows.append((chunk, load, total, times["experts"] / total))
        other = times["step"] + times["tokens"]
        for name, value in (
            ("MoE", times["experts"]),
            ("attention", times["attention"]),
            ("linear", times["linears"]),
            ("communication", times["all_reduce"]),
            ("other", other),
        ):
            kinds.append((chunk, name, value))
    frame = pl.DataFrame(rows, schema=["chunk", "expert load, GB", "prefill, ms", "MoE share"], orient="row")
    by_kernel = pl.DataFrame(kinds, schema=["chunk", "kernel", "ms"], orient="row")
    loaded = frame.select("chunk", "expert load, GB").with_columns(pl.lit("ours").alias("who"))
    return (
        Table(
            name="figure-2",
            caption=(
                "Figure 2: a prompt of 8,192 tokens by chunk size (fitted). The paper: over 500 ms and "
                "over half of it MoE in chunks of 512; near 200 ms and a load below 100 GB by 4,096 to "
                "8,192"
            ),
            frame=frame,
            formats={"expert load, GB": ".0f", "prefill, ms": ".0f", "MoE share": ".0%"},
        ),
        lines(
            "figure-2-load",
            "Figure 2, left: expert weights loaded for a prompt of 8,192 tokens (fitted)",
            loaded,
            x="chunk",
            y="expert load, GB",
            by="who",
            x_scale="log",
        ),
        lines(
            "figure-2-kernels",
            "Figure 2, right: time by kernel for a prompt of 8,192 tokens (fitted)",
            by_kernel,
            x="chunk",
            y="ms",
            by="kernel",
            x_scale="log",
        ),
    )


def _ends(fit: Fit, name: str) -> str:
    values = [of.fitted[name] for of in fit.equals]
    return f"{min(values):.4g} to {max(values):.4g}" if values else ""


def _decode_step_ms(fit: Fit) -> float:
    return 1e3 * sum(_candidate(fit).kernels(decodes=32, context=4096).values())


def _decode_steps(runs: Runs) -> str:
    values = [_decode_step_ms(fit) for fit in runs.fits]
    return f"fits of equal cost: {min(values):.3g} to {max(values):.3g}"


def _candidate(fit: Fit) -> Candidate:
    return Candidate(
        roofline=fit.roofline(),
        model=Model.load(fit.model),
        gpu=fit.resolved_gpu(),
        tensor_parallel=fit.tensor_parallel,
    )


def _spread(runs: Runs, case: Case) -> float:
    values = pl.Series([served.ttft for served in runs.served(case)])
    low, mid, high = (values.quantile(q, "linear") for q in (0.25, 0.5, 0.75))
    return (high - low) / mid if low is not None and mid and high is not None else 0.0

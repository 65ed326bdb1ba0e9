"""What was fitted, and to what: Figure 2 and Table 2."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from paceline.calibration import Candidate, Fit
from paceline.model import Model
from paceline.study.charts import lines
from paceline.study.layered_prefill.measures import MEASURES
from paceline.study.layered_prefill.setting import ARXIV, PAPER, Case, Runs, chunked
from paceline.study.model import Fact, Table
from paceline.study.pages import Content
from paceline.study.paper import Stated

__all__ = ["CASES", "page"]

_PROMPT = 8192
_CHUNKS = (256, 512, 1024, 2048, 4096, 8192)
_CHUNKED = {
    chunk: Case(workload=ARXIV, rate=PAPER["table-2", chunk, "rate"].number, policy=chunked(int(chunk)))
    for chunk in PAPER.names("table-2")
}
_WITH_TABLE_1 = {chunk: replace(case, table_1=True) for chunk, case in _CHUNKED.items()}
CASES = {**_CHUNKED, **{f"{chunk} with Table 1": case for chunk, case in _WITH_TABLE_1.items()}}


def page(runs: Runs) -> dict[str, Content]:
    """Return the fit and its residuals, Figure 2, and our numbers beside Table 2's."""
    fit = runs.fit
    numbers = {
        "number": list(fit.fitted),
        "value": list(fit.fitted.values()),
        "fits of equal cost": [_ends(fit, name) for name in fit.fitted],
    }
    return {
        "starts": str(fit.starts),
        "equals": str(len(fit.equals)),
        "experts_matmul": f"{fit.efficiency.experts_matmul:g}",
        "fit": Table(pl.DataFrame(numbers), {"value": ".4g"}),
        "fit-residuals": _residuals(fit),
        **_figure_2(fit),
        "table-2": _table_2(runs),
        "table-2-table-1": [
            Fact.compare(
                PAPER["table-2", chunk, "load"],
                runs.middle(case, "load"),
                "predicted",
                name=f"expert load, {_where(case, chunk)}",
            )
            for chunk, case in _WITH_TABLE_1.items()
        ],
        "decode-step": [_decode_step(runs)],
        "spreads": _spreads(runs),
    }


def _residuals(fit: Fit) -> list[Fact]:
    signs = {None: "", "at_least": "a lower bound", "at_most": "an upper bound"}
    return [
        Fact.compare(
            Stated(name=of.name, value=of.observed, where=of.source),
            of.fitted,
            "fitted",
            notes=(of.source, signs[of.bound]),
        )
        for of in fit.residuals
    ]


def _table_2(runs: Runs) -> list[Fact]:
    return [
        Fact.compare(
            stated,
            runs.middle(case, of),
            "fitted",
            name=f"{MEASURES[of].name}, {_where(case, chunk)}",
            notes=(runs.between(case, of, stated.number),),
        )
        for chunk, case in _CHUNKED.items()
        for of, stated in PAPER.table("table-2", chunk).items()
        if of in MEASURES
    ]


def _where(case: Case, chunk: str) -> str:
    return f"chunks of {chunk} at {case.rate}/s"


def _figure_2(fit: Fit) -> dict[str, Content]:
    model, candidate = Model.load(fit.model), _candidate(fit)
    experts = model.experts
    assert experts is not None, "Invariant: Qwen3-30B-A3B is a mixture"
    assert fit.coverage is not None, "Invariant: the fit has a coverage"
    whole = model.layers * experts.count * 3 * model.hidden_size * experts.intermediate_size * 2
    rows, kinds = [], []
    for chunk in _CHUNKS:
        parts = [candidate.kernels(prefill=chunk, history=at) for at in range(0, _PROMPT, chunk)]
        times = {name: 1e3 * sum(part[name] for part in parts) for name in parts[0]}
        # The paper times kernels: the time of a step outside of kernels is left out.
        times["step"] -= 1e3 * len(parts) * fit.efficiency.step_s
        total = sum(times.values())
        rows.append(
            {
                "chunk": chunk,
                "expert load, GB": len(parts) * whole * fit.coverage.at(chunk) / 1e9,
                "prefill, ms": total,
                "MoE share": times["experts"] / total,
            }
        )
        kernels = {
            "MoE": times["experts"],
            "attention": times["attention"],
            "linear": times["linears"],
            "communication": times["all_reduce"],
            "other": times["step"] + times["tokens"],
        }
        kinds += [{"chunk": chunk, "kernel": name, "ms": value} for name, value in kernels.items()]
    frame = pl.DataFrame(rows)
    loaded = frame.select("chunk", "expert load, GB").with_columns(source=pl.lit("ours"))
    formats = {"expert load, GB": ".0f", "prefill, ms": ".0f", "MoE share": ".0%"}
    return {
        "figure-2": Table(frame, formats),
        "figure-2-load": lines(loaded, x="chunk", y="expert load, GB", by="source", x_scale="log"),
        "figure-2-kernels": lines(pl.DataFrame(kinds), x="chunk", y="ms", by="kernel", x_scale="log"),
    }


def _ends(fit: Fit, name: str) -> str:
    values = [of.fitted[name] for of in fit.equals]
    return f"{min(values):.4g} to {max(values):.4g}" if values else ""


def _decode_step(runs: Runs) -> Fact:
    def ms(fit: Fit) -> float:
        return 1e3 * sum(_candidate(fit).kernels(decodes=32, context=4096).values())

    values = [ms(fit) for fit in runs.fits]
    name = "step of 32 decodes at 4,096 tokens"
    itl = PAPER["table-5", "qwen", ARXIV, "itl"]
    stated = Stated(name=name, value=1e3 * itl.number / 5, unit="ms", where="Section 5.1")
    note = f"fits of equal cost: {min(values):.3g} to {max(values):.3g}"
    return Fact.compare(stated, ms(runs.fit), "predicted", notes=(note,))


def _candidate(fit: Fit) -> Candidate:
    return Candidate(
        roofline=fit.roofline(),
        model=Model.load(fit.model),
        gpu=fit.resolved_gpu(),
        tensor_parallel=fit.tensor_parallel,
    )


def _spreads(runs: Runs) -> str:
    spreads = []
    for chunk, case in _CHUNKED.items():
        values = pl.Series([served.ttft for served in runs.served(case)])
        low, mid, high = (values.quantile(share, "linear") or 0.0 for share in (0.25, 0.5, 0.75))
        spreads.append(f"chunks of {chunk}: {(high - low) / mid:.2f}")
    return ", ".join(spreads)

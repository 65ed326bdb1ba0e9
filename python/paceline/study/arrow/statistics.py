"""Statistics of the traces: Figures 1 and 2, and the load of static pools, Figure 4."""

from __future__ import annotations

import numpy as np
import polars as pl

from paceline.replaying import replay
from paceline.study.arrow.searches import Searches
from paceline.study.charts import lines
from paceline.study.model import Figure, Table
from paceline.study.pages import Content

__all__ = ["statistics_page"]

_SHARES = np.linspace(0.0, 1.0, 101)
_CLIP_S = (1200.0, 2400.0)
"""Figure 4's clip of Azure's conversation: its 20th to 40th minute."""


def statistics_page(found: Searches) -> dict[str, Content]:
    """Return the tokens of each minute, the lengths, how the two correlate, and the load of static pools."""
    return {
        "minutes": Table(pl.DataFrame(_rows(found)), {"r of input and output": ".2f"}),
        "figure-1": _minutes(found),
        "figure-2": _lengths(found),
        "figure-4": _pools(found),
    }


def _tokens(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the input and output tokens of each whole minute that has requests."""
    since = frame["arrival"] - frame["arrival"][0]
    table = frame.with_columns(minute=(since // 60).cast(pl.Int64))
    sums = table.group_by("minute").agg(
        pl.col("prompt_tokens").cast(pl.Int64).sum(), pl.col("output_tokens").cast(pl.Int64).sum()
    )
    whole = max(int(since[-1] // 60), 1)
    return sums.filter(pl.col("minute") < whole).sort("minute")


def _rows(found: Searches) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for at in found.loads.values():
        each = _tokens(at.trace.frame)
        both = each.select(pl.corr("prompt_tokens", "output_tokens")).item()
        least, most = (
            each.sort("prompt_tokens").row(0, named=True),
            each.sort("prompt_tokens").row(-1, named=True),
        )
        rows.append(
            {
                "trace": at.title,
                "from": "file" if at.real else "drawn",
                "minutes": each.height,
                "least minute, input / output": _pair(least),
                "most, input / output": _pair(most),
                "r of input and output": both,
            }
        )
    return rows


def _pair(row: dict[str, int]) -> str:
    return f"{row['prompt_tokens'] / 1000:.1f}K / {row['output_tokens'] / 1000:.2f}K"


def _minutes(found: Searches) -> Figure:
    parts = []
    for at in found.loads.values():
        each = _tokens(at.trace.frame)
        for name, column in (("input", "prompt_tokens"), ("output", "output_tokens")):
            parts.append(
                each.select(
                    pl.lit(at.title).alias("trace"),
                    pl.lit(name).alias("tokens"),
                    pl.col("minute"),
                    (pl.col(column) / 1000).alias("thousand tokens a minute"),
                )
            )
    return lines(pl.concat(parts), x="minute", y="thousand tokens a minute", by="tokens", panel="trace")


def _lengths(found: Searches) -> Figure:
    parts = []
    for at in found.loads.values():
        for name, column in (("input", "prompt_tokens"), ("output", "output_tokens")):
            lengths = np.quantile(at.trace.frame[column].to_numpy(), _SHARES)
            one = {"trace": at.title, "of": name, "tokens, log10": np.log10(lengths)}
            parts.append(pl.DataFrame({**one, "share of requests": _SHARES}))
    return lines(pl.concat(parts), x="tokens, log10", y="share of requests", by="of", panel="trace")


def _pools(found: Searches) -> Figure:
    """Return the requests on the instances of each static pool over the clip of rising load."""
    at, how = found.loads["conversation"], found.settings[""]
    last = at.trace.span_s
    clip = at.trace.window(*_CLIP_S) if last > _CLIP_S[1] else at.trace
    rate = found.rate("conversation", "minimal_load")
    scaled = clip.stretched(found.of("conversation", "arrow").own / rate)
    result = replay(
        scaled, how.cluster("minimal_load"), how.policy("minimal_load", at.slo), sample=scaled.span_s / 120
    )
    timeline = result.timeline
    rows = timeline.group_by("time_s", "role", maintain_order=True).agg(
        (pl.col("running") + pl.col("waiting") + pl.col("incoming")).sum().alias("requests")
    )
    frame = rows.select(
        pl.col("role").cast(pl.String).alias("pool"), pl.col("time_s").alias("time, s"), pl.col("requests")
    )
    return lines(frame, x="time, s", y="requests", by="pool")

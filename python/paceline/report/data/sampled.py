"""Panels from the samples of a replay: sums and means over its instances, in at most so many intervals."""

from __future__ import annotations

from typing import Final

import polars as pl

from paceline.report.replayed import Run, has_tenants, is_sampled

__all__ = ["MOST_TENANTS", "sampled", "tenants"]

_MOST_POINTS: Final = 300
_RATES: Final = ("prefill_tokens", "decode_tokens", "preemptions")
MOST_TENANTS: Final = 7


def sampled(runs: tuple[Run, ...]) -> pl.DataFrame | None:
    """Return a row per run and moment, over all instances; None if no run was sampled.

    Returns
    -------
    polars.DataFrame
        ``run``, ``time_s``, ``running``, ``waiting`` (swapped-out requests among them), ``kv_use`` (share of
        blocks), ``kv_use_most`` (of the fullest instance), ``prefill_tokens``, ``decode_tokens`` and
        ``preemptions`` per second, and ``power_w`` (null if not known).
        Of each but ``kv_use_most``, also the least and the most of a
        sample in the interval, with ``_low`` and ``_high`` appended.
    """
    frames = [_over_instances(run) for run in runs if is_sampled(run.result)]
    return pl.concat(frames) if frames else None


def _over_instances(run: Run) -> pl.DataFrame:
    timeline: pl.DataFrame = run.result.timeline  # type: ignore[attr-defined] # only of sampled results
    moments = timeline["time_s"].n_unique()
    every = -(-moments // _MOST_POINTS)
    index = (pl.col("time_s").rank("dense") - 1) // every
    used = pl.col("kv_used_blocks") / pl.col("kv_total_blocks")
    totals = (
        timeline.lazy()
        .with_columns(index.alias("interval"), used.alias("used"))
        .group_by("interval", "time_s")
        .agg(
            pl.col("interval_s").first(),
            pl.col("running").sum(),
            (pl.col("waiting") + pl.col("swapped")).sum().alias("waiting"),
            (pl.col("kv_used_blocks").sum() / pl.col("kv_total_blocks").sum()).alias("kv_use"),
            pl.col("used").max().alias("kv_use_most"),
            pl.col("prefill_tokens", "decode_tokens", "preemptions").sum(),
            pl.when(pl.col("energy_j").null_count() == 0).then(pl.col("energy_j").sum()).alias("energy_j"),
        )
        # Of an interval with several samples: states at its end, the highest use, and rates over all of it.
        .sort("time_s")
        .group_by("interval", maintain_order=True)
        .agg(
            pl.col("time_s", "running", "waiting", "kv_use").last(),
            pl.col("running", "waiting", "kv_use").min().name.suffix("_low"),
            pl.col("running", "waiting", "kv_use").max().name.suffix("_high"),
            (pl.col(*_RATES) / pl.col("interval_s")).min().name.suffix("_low"),
            (pl.col(*_RATES) / pl.col("interval_s")).max().name.suffix("_high"),
            (pl.col("energy_j") / pl.col("interval_s")).min().alias("power_w_low"),
            (pl.col("energy_j") / pl.col("interval_s")).max().alias("power_w_high"),
            pl.col("kv_use_most").max(),
            pl.col("prefill_tokens", "decode_tokens", "preemptions", "energy_j", "interval_s").sum(),
            pl.col("energy_j").null_count().alias("unknown"),
        )
        .sort("interval")
    )
    span = pl.col("interval_s")
    return totals.select(
        pl.lit(run.name).alias("run"),
        "time_s",
        pl.col("running", "waiting").cast(pl.Int64),
        "kv_use",
        "kv_use_most",
        (pl.col("prefill_tokens", "decode_tokens", "preemptions") / span),
        pl.when(pl.col("unknown") == 0).then(pl.col("energy_j") / span).alias("power_w"),
        pl.col("^.*_(low|high)$"),
    ).collect()


def tenants(run: Run) -> pl.DataFrame | None:
    """Return ``tenant``, ``time_s``, ``arrivals`` and ``finished`` per second; None if not sampled by tenant.

    The tenants with the most requests have rows of their own; all others are one.
    """
    if not has_tenants(run.result):
        return None
    timeline: pl.DataFrame = run.result.tenant_timeline  # type: ignore[attr-defined] # likewise
    timeline = timeline.with_columns(pl.col("tenant").fill_null("(no tenant)"))
    ranked = (
        timeline.group_by("tenant")
        .agg(pl.col("arrivals").sum())
        .sort("arrivals", "tenant", descending=[True, False])
    )
    kept = ranked["tenant"].head(MOST_TENANTS).to_list()
    rest = f"{ranked.height - len(kept):,} others"
    every = -(-timeline["time_s"].n_unique() // 120)
    return (
        timeline.with_columns(
            ((pl.col("time_s").rank("dense") - 1) // every).alias("interval"),
            pl.when(pl.col("tenant").is_in(kept))
            .then(pl.col("tenant"))
            .otherwise(pl.lit(rest))
            .alias("tenant"),
        )
        .group_by("interval", "tenant", "time_s")
        .agg(pl.col("arrivals", "finished").sum(), pl.col("interval_s").first())
        .group_by("interval", "tenant")
        .agg(pl.col("time_s").max(), pl.col("arrivals", "finished", "interval_s").sum())
        .sort(
            "interval",
            pl.col("tenant").replace_strict(
                {name: place for place, name in enumerate(kept)}, default=len(kept)
            ),
        )
        .select("tenant", "time_s", pl.col("arrivals", "finished") / pl.col("interval_s"))
    )

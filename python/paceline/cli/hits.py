"""`paceline hits`: the hit rate of a prefix cache against its capacity."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from paceline.cli.options import (
    DEFAULT_CLUSTER,
    DEFAULT_POLICY,
    DEFAULT_READING,
    OUTPUT,
    ClusterOptions,
    Flag,
    PolicyOptions,
    ReadingOptions,
)

if TYPE_CHECKING:
    import polars as pl

    from paceline.trace import Trace

__all__ = ["hits"]

_REPLAYS = 8
"""Capacities that are replayed where none are given."""


def hits(
    trace: Path,
    /,
    *,
    capacity: Annotated[tuple[int, ...], Parameter(negative="", show_default=False)] = (),
    tiers: Annotated[tuple[int, ...], Parameter(negative="", show_default=False)] = (),
    blocks_of: int | None = None,
    full_blocks: Flag = False,
    no_answers: Flag = False,
    replay: Flag = False,
    on: ClusterOptions = DEFAULT_CLUSTER,
    under: PolicyOptions = DEFAULT_POLICY,
    reading: ReadingOptions = DEFAULT_READING,
    page: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    json: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    quiet: Annotated[Flag, Parameter(group=OUTPUT)] = False,
) -> None:
    """Draw the hit rate of an LRU prefix cache against its capacity.

    Requests are taken one after another, in the order of the trace: the curve is exact for that order, and
    a replay differs where requests run at the same time. --replay replays at several capacities beside it.

    Parameters
    ----------
    trace
        File with the requests and what their prompts share (prefix or session).
    capacity
        Blocks at which the curve is evaluated; may be repeated. By default two for each doubling.
    tiers
        Blocks of each tier, from the GPU down (--tiers 10000 --tiers 80000): what each finds that none above
        it has, where all are LRU, every block is written to all, and a use counts in all.
    blocks_of
        Tokens in a block; by default the trace's, or 16 where it has only sessions; with --replay the
        instance's.
    full_blocks
        Count as engines do: only full blocks are found, and the last token of a prompt is always computed.
    no_answers
        Leave blocks of answers out of the cache.
    replay
        Also replay on the cluster with instances of these capacities, under the policy and its eviction.
    page
        Write the chart to an HTML file; needs pip install 'paceline[report]'.
    json
        Print one JSON object instead of a table.
    quiet
        Print nothing to standard error but errors.
    """
    import paceline
    from paceline.cli.output import note, print_json
    from paceline.reuse.curve import block_tokens_of, hit_curve
    from paceline.reuse.tiers import tier_hits

    requests = reading.read(trace)
    size = block_tokens_of(requests, _size(blocks_of, replay=replay, on=on))
    begun = time.perf_counter()
    counted: dict[str, Any] = {
        "block_tokens": size,
        "model": _model(on),
        "kv_dtype": on.kv_dtype,
        "full_blocks": full_blocks or replay,
        "answers": not no_answers,
    }
    curve = hit_curve(requests, capacities=capacity or None, **counted)
    by_tier = tier_hits(requests, tiers=tiers, **counted) if tiers else None
    took = time.perf_counter() - begun
    curves = {"LRU, in order of arrival": curve}
    if replay:
        chosen = list(capacity) or _some(curve["capacity_blocks"].to_list())
        curves["replayed"] = _replayed(requests, on, under, chosen, quiet=quiet)
    if page is not None:
        from paceline.reuse.chart import write_hit_page

        write_hit_page(curves, page, title=f"{requests.name}: prefix cache")
    if json:
        print_json(
            {
                "paceline": paceline.__version__,
                "trace": {"name": requests.name, "sha256": requests.sha256, "requests": len(requests)},
                "block_tokens": size,
                "curve": curve.rows(named=True),
                "tiers": None if by_tier is None else by_tier.rows(named=True),
                "replayed": curves["replayed"].rows(named=True) if replay else None,
            }
        )
    else:
        _print(requests, size, curves, by_tier)
    if not quiet:
        note(f"computed the curve in {took:.2f} s")


def _size(blocks_of: int | None, *, replay: bool, on: ClusterOptions) -> int | None:
    """Return the tokens in a block that the options say; None for the trace's."""
    if not replay:
        return blocks_of
    from paceline.errors import ConfigError

    size = on.cluster().instances[0].block_tokens
    if blocks_of not in (None, size):
        raise ConfigError(f"--blocks-of must be the instance's {size} with --replay, was {blocks_of}")
    return size


def _model(on: ClusterOptions) -> Any:  # noqa: ANN401 - a name, a Model or None
    """Return the model that the options name, if they name one."""
    if on.file is not None:
        return on.cluster().instances[0].resolved_model
    if on.model is None or not Path(on.model).exists():
        return on.model
    from paceline.model import Model

    return Model.from_hf_config(on.model)


def _some(capacities: Sequence[int]) -> list[int]:
    """Return some of the capacities, the largest ones, of which each is twice the one before."""
    return sorted(capacities[::-2][:_REPLAYS])


def _replayed(
    requests: Trace, on: ClusterOptions, under: PolicyOptions, capacities: Sequence[int], *, quiet: bool
) -> pl.DataFrame:
    from paceline.cli.options import layers_of
    from paceline.cli.progress import TaskBar
    from paceline.reuse.replayed import replayed_hits

    cluster = on.cluster()
    policy = under.choose(layers_of(cluster.instances[0]))
    with TaskBar(quiet=quiet) as bar:
        return replayed_hits(
            requests,
            cluster,
            policy,
            capacities=capacities,
            progress=lambda done, total: bar.show("replaying", done, total),
        )


def _print(requests: Trace, size: int, curves: dict[str, pl.DataFrame], by_tier: pl.DataFrame | None) -> None:
    from rich.text import Text

    from paceline.cli.output import console, table

    screen = console()
    curve, *replayed = curves.values()
    screen.print(Text(f"{requests.name}: {len(requests):,} requests, blocks of {size} tokens", style="bold"))
    screen.print()
    screen.print(table(*_rates(curve), left=0))
    if by_tier is not None:
        screen.print()
        screen.print(Text("each tier, beside those above it", style="bold"))
        headings, rows = _rates(by_tier)
        numbers = by_tier["tier"].to_list()
        tiers = [(f"{number}", *row) for number, row in zip(numbers, rows, strict=True)]
        screen.print(table(("tier", *headings), tiers, left=0))
    for frame in replayed:
        screen.print()
        screen.print(Text("replayed", style="bold"))
        shown = [
            (
                f"{row['capacity_blocks']:,}",
                *(_percent(row[name]) for name in ("token_hit_rate", "host_hit_rate", "store_hit_rate")),
                *(f"{row[name]:,}" for name in ("evictions", "preemptions", "rejected")),
            )
            for row in frame.rows(named=True)
        ]
        screen.print(table(_REPLAYED, shown, left=0))


_REPLAYED: Final = (
    "blocks",
    "tokens found",
    "on the host",
    "in a store",
    "evictions",
    "preemptions",
    "rejected",
)


def _rates(curve: pl.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the headings and the rows of capacities and what is found there."""
    sized = curve["capacity_gib"].null_count() == 0
    headings = ("blocks", *(("GiB",) if sized else ()), "tokens found", "blocks found", "of the ideal")
    rows = [
        (
            f"{row['capacity_blocks']:,}",
            *((f"{row['capacity_gib']:,.3g}",) if sized else ()),
            *(_percent(row[name]) for name in ("token_hit_rate", "block_hit_rate", "share_of_ideal")),
        )
        for row in curve.rows(named=True)
    ]
    return headings, rows


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.2%}"

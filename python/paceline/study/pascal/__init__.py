"""PASCAL's evaluation (Cho et al., HPCA 2026) done again: phase-aware scheduling, FCFS and round robin.

``paceline study pascal`` runs it. Each of the paper's questions has a page, whose module says how it is set
up. ``claims`` decides from the rows which claims hold, ``choices`` lists what the paper leaves open, and
``workloads.toml`` says where the lengths come from, which the paper shows but does not publish.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from paceline.study.model import Page, Study
from paceline.study.pascal import paper
from paceline.study.pascal.ablations import adaptivity_page, migration_page
from paceline.study.pascal.characterization import characterize, characterized
from paceline.study.pascal.choices import choices_page
from paceline.study.pascal.claims import claims_page
from paceline.study.pascal.demand import stretched
from paceline.study.pascal.elsewhere import elsewhere, elsewhere_page
from paceline.study.pascal.elsewhere import planned as elsewhere_planned
from paceline.study.pascal.evaluation import loads_page, ttft_page
from paceline.study.pascal.hardware import pascals_instance
from paceline.study.pascal.headline import headline_page, numbers
from paceline.study.pascal.heavy import MIXES, heavy_page, mixed
from paceline.study.pascal.notes import notes
from paceline.study.pascal.production import absent_page, production_page, production_trace
from paceline.study.pascal.runs import LEVELS, PROMPTS, SEEDS, TIMES, Runs
from paceline.study.pascal.schedulers import POLICIES
from paceline.study.pascal.setting import setting_page
from paceline.study.pascal.variations import planned as variations_planned
from paceline.study.pascal.variations import variations_page, varied
from paceline.study.pascal.workloads import chats
from paceline.study.work import Work
from paceline.trace import Trace

__all__ = ["run"]

_BASE: Final = ("FCFS", "RR", "PASCAL")
_VARIANTS: Final = ("PASCAL(NoMigration)", "PASCAL(NonAdaptive)")
_WORKLOADS: Final = ("alpacaeval", "arena-hard")
_PRODUCTION: Final = ("medium", "high")


def run(work: Work) -> Study:
    """Run the study.

    Parameters
    ----------
    work
        ``quick`` takes one seed and no variations; ``data`` is a folder with
        ``servegen_deepseek-r1.tar.zst``, for the production workload.

    Returns
    -------
    Study
        Its pages.
    """
    runs = Runs(work=work)
    # Read first: the file may be missing.
    served = None if work.data is None else production_trace(work.data, SEEDS[0])
    _plan(work, runs, served)
    phases, slowdowns, others = characterize(work)
    titles = {name: chats(name).title for name in _WORKLOADS}
    base = _frames(runs, _WORKLOADS, tuple(LEVELS), _BASE)
    variants = _frames(runs, _WORKLOADS[:1], tuple(LEVELS), ("PASCAL", *_VARIANTS))
    heavy = _frames(runs, ("heavy",), ("high",), _BASE)
    by_seed = [
        numbers(
            _frames(runs, (*_WORKLOADS, "heavy"), ("high",), _BASE, seed)
            | _frames(runs, _WORKLOADS[:1], ("high",), _VARIANTS, seed)
        )
        for seed in runs.seeds
    ]
    compared, mixes = (None, None) if work.quick else (varied(runs), mixed(runs))
    found_elsewhere = None if work.quick else elsewhere(runs, served)
    why = {} if compared is None or mixes is None else notes(compared, mixes, others)
    pages = [
        headline_page(by_seed, slowdowns, why),
        *(
            []
            if compared is None or found_elsewhere is None
            else [claims_page(pl.concat([compared, found_elsewhere[0]]))]
        ),
        choices_page(compared, runs.overflows),
        setting_page(runs),
        phases,
        ttft_page(base, titles),
        loads_page(base, titles),
        migration_page(variants, "alpacaeval"),
        adaptivity_page(variants, "alpacaeval"),
        heavy_page({policy: frame for (_, _, policy), frame in heavy.items()}, mixes),
        absent_page() if served is None else _production(runs, served),
    ]
    if compared is not None and found_elsewhere is not None:
        pages += [elsewhere_page(*found_elsewhere), variations_page(compared)]
    return Study(
        name="pascal",
        title="PASCAL: reasoning first, answers paced",
        source=paper.SOURCE,
        pages=tuple(pages),
        quick=work.quick,
    )


def _frames(
    runs: Runs, workloads: Sequence[str], levels: Sequence[str], policies: Sequence[str], seed: int = SEEDS[0]
) -> dict[tuple[str, str, str], pl.DataFrame]:
    return {
        (workload, level, policy): runs.run(workload, level, policy, seed).requests
        for workload in workloads
        for level in levels
        for policy in policies
    }


def _plan(work: Work, runs: Runs, served: Trace | None) -> None:
    """Say how many requests will be replayed."""
    alpaca, arena = (TIMES * PROMPTS[name] for name in _WORKLOADS)
    seeds = len(runs.seeds)
    work.plan(characterized(work))
    # The lower loads once; the high one for each seed, the mix of section V.D with it.
    work.plan(2 * (5 * alpaca + 3 * arena) + seeds * (5 * alpaca + 6 * arena))
    if served is not None:
        work.plan(len(_PRODUCTION) * len(POLICIES) * len(served))
    if not work.quick:
        work.plan(seeds * 3 * len(MIXES) * arena)
        work.plan(variations_planned(seeds) + elsewhere_planned(seeds, served))


def _production(runs: Runs, served: Trace) -> Page:
    traces = {level: stretched(served, LEVELS[level], pascals_instance()) for level in _PRODUCTION}
    frames = {
        (level, policy): runs.replay(trace, policy).requests
        for level, trace in traces.items()
        for policy in POLICIES
    }
    return production_page(frames, served, {level: trace.rate_per_s for level, trace in traces.items()})

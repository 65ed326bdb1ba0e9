"""PASCAL's evaluation (Cho et al., HPCA 2026) done again: phase-aware scheduling, FCFS and round robin.

``paceline study pascal`` runs it. Each of the paper's questions has a page, whose module says how it is set
up. ``claims`` decides from the rows which claims hold, ``choices.toml`` lists what the paper leaves open,
``paper.toml`` has the paper's numbers, and ``workloads.toml`` says where the lengths come from, which the
paper shows but does not publish.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from paceline.study.choices import Comparisons
from paceline.study.claims import claims_tables
from paceline.study.model import Study, Table
from paceline.study.pages import Content, pages
from paceline.study.pascal.ablations import adaptivity_page, migration_page
from paceline.study.pascal.characterization import Characterization
from paceline.study.pascal.claims import CLAIMS
from paceline.study.pascal.comparison import CAPTION, FORMATS, comparisons, summary
from paceline.study.pascal.elsewhere import Elsewhere
from paceline.study.pascal.evaluation import loads_page, ttft_page
from paceline.study.pascal.headline import headline_page, numbers
from paceline.study.pascal.heavy import MIXES, heavy_page, mixed
from paceline.study.pascal.production import production_page
from paceline.study.pascal.production import settings as production_settings
from paceline.study.pascal.runs import BASE, LEVELS, SEEDS, VARIANTS, WORKLOADS, Runs, Setting, asked
from paceline.study.pascal.schedulers import PAPER, POLICIES
from paceline.study.pascal.setting import setting_page
from paceline.study.pascal.variations import VARIATIONS, choices_page
from paceline.study.pascal.workloads import FILE, Served
from paceline.study.work import Work

__all__ = ["run"]


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
    runs = Runs(work)
    # Read first: the file may be missing.
    served = None if work.data is None else Served.load(work.data, SEEDS[0])
    phases = Characterization(runs)
    _announce(runs, served)
    contents: dict[str, Mapping[str, Content]] = {}
    variations, mixes, quoted = None, None, {}
    if not work.quick:
        elsewhere = Elsewhere(runs, served)
        runs.announce(VARIATIONS.values(), POLICIES)
        runs.announce(MIXES.values(), BASE)
        variations = comparisons(runs.compared(VARIATIONS, POLICIES, summary))
        mixes = runs.compared(MIXES, BASE, mixed)
        quoted = {"variations": variations, "mixes": Comparisons(rows=mixes), "figure 4": _figure_4(phases)}
        contents = {
            "claims": claims_tables(CLAIMS, variations.rows, elsewhere.rows),
            "elsewhere": elsewhere.page(),
            "variations": {"columns": CAPTION, "variations-table": Table(variations.rows, FORMATS)},
        }
    by_seed = [
        numbers(
            runs.evaluation((*WORKLOADS, "heavy"), ("high",), BASE, seed)
            | runs.evaluation(("alpacaeval",), ("high",), VARIANTS, seed)
        )
        for seed in runs.seeds
    ]
    contents |= {
        "headline": headline_page(by_seed, phases.slowdowns, quoted),
        "setting": setting_page(runs),
        "phases": phases.page(),
        "ttft": ttft_page(runs),
        "loads": loads_page(runs),
        "migration": migration_page(runs),
        "adaptivity": adaptivity_page(runs),
        "reasoning-heavy": heavy_page(runs, mixes),
        **(
            {"production-absent": {"file": FILE}}
            if served is None
            else {"production": production_page(runs, served)}
        ),
    }
    # Last: it counts over all replays.
    contents["choices"] = choices_page(variations, runs.overflows)
    return Study(
        name="pascal",
        title="PASCAL: reasoning first, answers paced",
        source=PAPER.source,
        pages=pages(__package__, contents),
        quick=work.quick,
    )


def _announce(runs: Runs, served: Served | None) -> None:
    """Announce what every run replays: each load for the first seed, the high one for all seeds."""
    settings = {
        (workload, level): Setting(trace=asked(workload), load=load)
        for workload in (*WORKLOADS, "heavy")
        for level, load in LEVELS.items()
    }
    for (workload, level), setting in settings.items():
        policies = POLICIES if workload == "alpacaeval" else BASE
        if level == "high":
            runs.announce([setting], policies)
        elif workload != "heavy":
            runs.announce([setting], policies, SEEDS[:1])
    if served is not None:
        runs.announce(production_settings(served).values(), POLICIES)


def _figure_4(phases: Characterization) -> Comparisons:
    """Return Figure 4 at other rates and with other lengths, as notes quote it."""
    what = pl.format(
        "{} at {}", "lengths", pl.col("of the highest rate").map_elements("{:g}".format, pl.String)
    )
    return Comparisons(rows=phases.others.with_columns(what=what))

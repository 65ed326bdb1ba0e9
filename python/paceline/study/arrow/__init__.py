"""Arrow's evaluation (Wu et al., 2025) done again: four traces on eight H800."""

from __future__ import annotations

from paceline.study.arrow.draws import draws_page
from paceline.study.arrow.paper import PAPER
from paceline.study.arrow.rates import rates_page, scaling_page, strategies_page, workloads_page
from paceline.study.arrow.reasons import reasons_page
from paceline.study.arrow.searches import Searches
from paceline.study.arrow.statistics import statistics_page
from paceline.study.arrow.variations import KEYS, SETTINGS, choices_page, splits_page
from paceline.study.arrow.workloads import WORKLOADS
from paceline.study.model import Study
from paceline.study.pages import pages
from paceline.study.work import Work

__all__ = ["run"]

_OWN = ("arrow", "tp8", "disaggregated", "minimal_load", "round_robin", "xllm", "replicas", "distserve")


def run(work: Work) -> Study:
    """Run the study.

    Parameters
    ----------
    work
        ``quick`` takes 300 requests of each trace and no variations; ``data`` is a folder with the
        traces of Azure and Mooncake, which are drawn otherwise.

    Returns
    -------
    Study
        Its pages.
    """
    found = Searches(work, SETTINGS)
    found.announce((workload, system, "") for workload in WORKLOADS for system in _OWN)
    if not work.quick:
        found.announce(KEYS)
    found.run()
    contents = {
        "workloads": {**workloads_page(found), **statistics_page(found)},
        "rates": {**rates_page(found), **draws_page(found)},
        "strategies": {**strategies_page(found), **splits_page(found)},
        "reasons": reasons_page(found),
        "scaling": scaling_page(found),
        "choices": choices_page(found),
    }
    return Study(
        name="arrow",
        title="Arrow: instances that change between prefill and decode",
        source=PAPER.source,
        pages=pages(__package__, contents),
        quick=work.quick,
    )

"""Llumnix's serving experiment (Sun et al., 2024) done again: sixteen instances of LLaMA-7B on A10s."""

from __future__ import annotations

from paceline.study.llumnix.migration import migration_page
from paceline.study.llumnix.serving import rows_of, serving_page, serving_trials
from paceline.study.llumnix.setting import PAPER, measured
from paceline.study.model import Study
from paceline.study.pages import pages
from paceline.study.trials import Trials
from paceline.study.work import Work

__all__ = ["run"]


def run(work: Work) -> Study:
    """Run the study.

    Parameters
    ----------
    work
        ``quick`` takes 1,500 requests of one trace and no variations. ``data`` is a folder that may have
        Sarathi-Serve's lengths of ShareGPT, whose trace is left out otherwise.

    Returns
    -------
    Study
        Its pages.
    """
    trials = Trials(measured, work)
    served = serving_trials(work)
    trials.announce(served.values())
    rows = rows_of(served, trials)
    contents = {"serving": serving_page(rows, work), "migration": migration_page(trials, work)}
    return Study(
        name="llumnix",
        title="Llumnix: live migration between sixteen instances",
        source=PAPER.source,
        pages=pages(__package__, contents),
        quick=work.quick,
    )

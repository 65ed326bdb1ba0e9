"""Splitwise's clusters (Patel et al., 2024) done again: pools for prompts and for tokens, on its traces."""

from __future__ import annotations

from paceline.study.model import Study
from paceline.study.pages import pages
from paceline.study.splitwise.designs import PAPER
from paceline.study.splitwise.searches import Searches
from paceline.study.splitwise.throughput import changes_page, machines_page, throughput_page
from paceline.study.work import Work

__all__ = ["run"]


def run(work: Work) -> Study:
    """Run the study.

    Parameters
    ----------
    work
        ``quick`` searches few rates of three designs on one trace, and has no variations. ``data`` is a
        folder with Azure's traces of 2023; else their lengths are drawn from distributions fitted to them.

    Returns
    -------
    Study
        Its pages.
    """
    searches = Searches(work)
    contents = {
        "machines": machines_page(),
        "throughput": throughput_page(searches),
        "changes": changes_page(searches),
    }
    return Study(
        name="splitwise",
        title="Splitwise: pools of machines for prompts and for tokens",
        source=PAPER.source,
        pages=pages(__package__, contents),
        quick=work.quick,
    )

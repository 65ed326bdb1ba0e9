"""Studies: published evaluations done again, the paper's numbers beside ours.

A study has pages of text, tables, facts and figures. Each study is a package of its own, imported when it is
run; :func:`studies` lists them and :func:`run_study` runs one. A number of ours says whether it was fitted to
the paper or predicted.

All studies share how trials are replayed (``trials``), a paper's numbers read (``paper``) and held against
ours (``model``), claims judged (``claims``), settings compared (``choices``), charts drawn (``charts``) and
pages written (``writing``).
"""

from __future__ import annotations

from paceline.study.charts import lines
from paceline.study.model import Fact, Facts, Figure, Kind, Page, Part, Study, Table
from paceline.study.paper import Paper, Stated
from paceline.study.registry import run_study, studies
from paceline.study.trials import Drawn, Trial, Trials
from paceline.study.work import Work
from paceline.study.writing import as_document, write_study

__all__ = [
    "Drawn",
    "Fact",
    "Facts",
    "Figure",
    "Kind",
    "Page",
    "Paper",
    "Part",
    "Stated",
    "Study",
    "Table",
    "Trial",
    "Trials",
    "Work",
    "as_document",
    "lines",
    "run_study",
    "studies",
    "write_study",
]

"""Studies: published evaluations done again, the paper's figures beside ours.

A study is pages of text, tables, facts and figures. Each has a module of its own, imported when it is run;
:func:`studies` lists them and :func:`run_study` runs one. Where a number of ours was fitted to the paper it
says so, and where it was predicted too.
"""

from __future__ import annotations

from paceline.study.charts import lines
from paceline.study.model import Fact, Facts, Figure, Kind, Page, Part, Study, Table
from paceline.study.registry import run_study, studies
from paceline.study.work import Work
from paceline.study.writing import as_document, write_study

__all__ = [
    "Fact",
    "Facts",
    "Figure",
    "Kind",
    "Page",
    "Part",
    "Study",
    "Table",
    "Work",
    "as_document",
    "lines",
    "run_study",
    "studies",
    "write_study",
]

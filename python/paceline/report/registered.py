"""Registers what results, comparisons and notebooks call of the report."""

from __future__ import annotations

from paceline.report.plots import Plots
from paceline.report.summary import result_card
from paceline.report.writing import check_arguments, write_report
from paceline.showing.writers import register

register("report", write_report)
register("check report", check_arguments)
register("plots", Plots)
register("card", result_card)

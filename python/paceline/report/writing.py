"""Writing a report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline import _check
from paceline.errors import ConfigError
from paceline.objectives import SLO
from paceline.report.answer import answer, identical
from paceline.report.figure import Section
from paceline.report.libraries import altair
from paceline.report.page.assemble import assemble
from paceline.report.page.writing import page_file, write_page
from paceline.report.replayed import Replayed, Run, runs_of
from paceline.report.sections.balance import balance
from paceline.report.sections.capacities import capacities as capacity_section
from paceline.report.sections.capacities import document_of
from paceline.report.sections.comparison import comparison_document, comparison_section
from paceline.report.sections.groups import groups
from paceline.report.sections.headlines import cards, cards_of_several, headlines
from paceline.report.sections.inputs import inputs_of, warnings_of
from paceline.report.sections.latency import by_lengths, latencies
from paceline.report.sections.objectives import objectives
from paceline.report.sections.over_time import moments
from paceline.report.sections.parts import split

__all__ = ["MOST_RUNS", "page_of", "sections_of", "write_report"]

MOST_RUNS = 8
"""Runs of one report: as many as there are colours that all readers can tell apart."""


def write_report(
    results: Mapping[str, Replayed],
    path: str | os.PathLike[str],
    *,
    slo: SLO | None = None,
    capacities: Mapping[str, Any] | None = None,
    comparison: object = None,
    title: str | None = None,
) -> Path:
    """Write a report of results to one HTML file, whole or not at all; see :meth:`paceline.Result.report`.

    Parameters
    ----------
    results
        Results by the name under which the report shows them, the one that others are compared with first.
    path
        The file. It is replaced if it exists.
    slo
        Objectives, for attainment and goodput.
    capacities
        Capacities by name, as :func:`paceline.capacity` returns them, or their documents.
    comparison
        What :func:`paceline.compare` returned, or its document, for its intervals.
    title
        The page's title; made from the traces and names if not given.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    ConfigError
        If there is no result or more than 8, or the extra ``paceline[report]`` is not installed.
    ResultError
        If the file cannot be written.
    """
    check_arguments(results, path, slo, capacities, title)
    target = page_file(path)
    text = page_of(results, slo=slo, capacities=capacities, comparison=comparison, title=title)
    return write_page(text, target)


def check_arguments(
    results: object, path: object, slo: object, capacities: object, title: object, *, what: str = "results"
) -> None:
    """Check the types of the arguments of a report; ``what`` names the argument with results."""
    by_name = isinstance(results, Mapping) and all(
        isinstance(name, str) and hasattr(one, "provenance") for name, one in results.items()
    )
    if not by_name:
        raise ConfigError(f"{what} must be a mapping from names to results, was {_check.said(results)}")
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"path must be the path of a file, was {_check.said(path)}")
    if slo is not None and not isinstance(slo, SLO):
        raise ConfigError(f"slo must be an SLO, such as SLO(ttft=1.0), was {_check.said(slo)}")
    named = isinstance(capacities, Mapping) and all(isinstance(name, str) for name in capacities)
    if capacities is not None and not named:
        raise ConfigError(f"capacities must be a mapping by name, was {_check.said(capacities)}")
    if title is not None:
        _check.text("title", title)


def page_of(
    results: Mapping[str, Replayed],
    *,
    slo: SLO | None = None,
    capacities: Mapping[str, Any] | None = None,
    comparison: object = None,
    title: str | None = None,
) -> str:
    """Return the text of a report; the arguments are those of `write_report`."""
    if not 1 <= len(results) <= MOST_RUNS:
        raise ConfigError(
            f"a report must have between 1 and {MOST_RUNS} results, had {len(results)}; "
            "write several reports, or one of those that matter"
        )
    runs = runs_of(results)
    searches = {name: document_of(name, found) for name, found in (capacities or {}).items()}
    compared = None if comparison is None else comparison_document(comparison)
    # Altair checks every part of a chart against its schema, which takes most of the time of a report. Tests
    # make the same charts with these checks.
    with altair().utils.schemapi.debug_mode(False):
        return _page(runs, sections_of(runs, slo, searches, compared), slo, title)


def sections_of(
    runs: tuple[Run, ...],
    slo: SLO | None,
    searches: Mapping[str, Mapping[str, Any]],
    compared: Mapping[str, Any] | None = None,
) -> list[Section]:
    """Return the sections that the runs have something for."""
    made = (
        headlines(runs, slo),
        comparison_section(compared),
        latencies(runs, slo),
        groups(runs, slo),
        by_lengths(runs),
        split(runs),
        objectives(runs, slo),
        moments(runs),
        balance(runs),
        capacity_section(searches),
    )
    return [section for section in made if section is not None and section.figures]


def _page(runs: tuple[Run, ...], sections: Sequence[Section], slo: SLO | None, title: str | None) -> str:
    return assemble(
        title=title or _title(runs),
        lead=_lead(runs, slo),
        version=runs[0].result.provenance.version,
        cards=cards(runs[0], slo) if len(runs) == 1 else cards_of_several(runs, slo),
        warnings=[*warnings_of(runs), *identical(runs)],
        sections=sections,
        inputs=[inputs_of(run) for run in runs],
    )


def _title(runs: tuple[Run, ...]) -> str:
    traces = dict.fromkeys(run.result.provenance.trace for run in runs)
    words = " and ".join(traces) if len(traces) <= 2 else f"{len(traces)} traces"
    return (
        f"{words}: {', '.join(run.name for run in runs)}" if len(runs) <= 3 else f"{words}: {len(runs)} runs"
    )


def _lead(runs: tuple[Run, ...], slo: SLO | None) -> str:
    words = answer(runs, slo)
    if len(runs) > 1:
        return f"{words} Differences are to the first, {runs[0].name}."
    totals = runs[0].result.totals()
    return f"{words} {totals.requests:,} requests in {totals.simulated_s:,.1f} simulated seconds."

"""The part of a result that people look at: its report, its charts, and its look in a notebook."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline import _check
from paceline.errors import ConfigError
from paceline.showing.writers import writer

if TYPE_CHECKING:
    from paceline.objectives import SLO
    from paceline.report.plots import Plots
    from paceline.report.replayed import Replayed

__all__ = ["Shown"]


class Shown:
    """Reports and charts of the result that a class inherits this for."""

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        name: str = "replay",
        against: Mapping[str, Replayed] | None = None,
        slo: SLO | None = None,
        capacities: Mapping[str, Any] | None = None,
        comparison: object = None,
        title: str | None = None,
    ) -> Path:
        """Write a report: one HTML file with all charts and tables, that opens without a network.

        It has what was run, headline numbers, the distributions and tails of latencies, latency by length,
        the parts of a latency, panels over time, and the balance of instances. With a `slo` it has
        attainment and goodput; of a policy with a pace, quality of experience; of a sampled replay, KV use,
        queues and power over time.

        Parameters
        ----------
        path
            The file. It is replaced if it exists.
        name
            What the report calls this result.
        against
            Further results by name, up to 7, shown side by side with this one.
        slo
            Objectives.
        capacities
            Capacities by name, as :func:`paceline.capacity` returns them: the report has their curves.
        comparison
            What :func:`paceline.compare` returned: the report has its figures with their intervals.
        title
            The page's title; made from the trace and the names if not given.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        ConfigError
            If the extra ``paceline[report]`` is not installed, or there are too many results.
        ResultError
            If the file cannot be written.
        """
        _check.text("name", name)
        writer("check report")(
            {} if against is None else against, path, slo, capacities, title, what="against"
        )
        others = dict(against or {})
        if name in others:
            raise ConfigError(f"the results of a report must have different names, {name!r} is there twice")
        results = {name: self, **others}
        written: Path = writer("report")(
            results, path, slo=slo, capacities=capacities, comparison=comparison, title=title
        )
        return written

    @property
    def plot(self) -> Plots:
        """Altair charts: ``plot.cdf("ttft")``, ``tail``, ``hist``, ``by_length`` and ``over_time``."""
        plots: Plots = writer("plots")(self)
        return plots

    def _repr_html_(self) -> str:
        """Show totals, latencies, the policy and the cluster in a notebook."""
        card: str = writer("card")(self)
        return card

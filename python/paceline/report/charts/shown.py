"""Charts as a notebook shows them: without a network."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from paceline.report.libraries import altair, vl_convert

if TYPE_CHECKING:
    from paceline.report.charts.kit import Chart

__all__ = ["offline"]


def offline(chart: Chart) -> Chart:
    """Return a chart that a notebook shows without loading anything.

    Altair's own form of a chart loads Vega from a server. This one is its specification, which JupyterLab and
    VS Code draw themselves with tooltips, and its picture as SVG for all others.
    """
    kind: Any = type(chart)
    shown = chart.copy()
    object.__setattr__(shown, "__class__", _offline(kind))
    return shown


@cache
def _offline(kind: Any) -> Any:  # noqa: ANN401 - Altair's
    """Return Altair's kind of chart with another form in notebooks."""

    def _repr_mimebundle_(self: Any, *_: object, **__: object) -> dict[str, Any]:  # noqa: ANN401 - Altair's
        spec = self.to_dict()
        version = altair().SCHEMA_VERSION.removeprefix("v")
        major, spoken = version.partition(".")[0], version.rpartition(".")[0]
        picture = vl_convert().vegalite_to_svg(spec, vl_version=spoken)
        return {
            f"application/vnd.vegalite.v{major}+json": spec,
            "image/svg+xml": picture,
            "text/plain": repr(self),
        }

    return type(kind.__name__, (kind,), {"_repr_mimebundle_": _repr_mimebundle_})

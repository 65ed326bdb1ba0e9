"""Colours and type of charts.

Okabe and Ito's colours (Color Universal Design, 2008), which readers who do not see red and green can tell
apart. Series also differ by their dashes. A report uses CSS variables, so that one drawing serves dark,
light and print; a chart in a notebook uses the colours themselves.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["COLOURS", "DASHES", "NOTEBOOK", "PAGE", "PARTS"]

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#777777", "#000000")
DASHES: Final = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [10, 4], [4, 2], [1, 3], [12, 2])

PARTS: Final = ("#E69F00", "#56B4E9", "#777777", "#0072B2", "#D55E00", "#CC79A7", "#009E73")
"""Of the parts of a latency, in their order."""


def _config(colours: list[str], ink: str, faint: str, first: str) -> dict[str, Any]:
    font = "system-ui, sans-serif"
    return {
        "background": "transparent",
        "font": font,
        "range": {"category": colours},
        "mark": {"color": first},
        "line": {"color": first, "strokeWidth": 1.8},
        "bar": {"color": first},
        "area": {"color": first},
        "point": {"color": first},
        "rule": {"color": ink},
        "text": {"color": ink, "font": font},
        "axis": {
            "labelColor": ink,
            "titleColor": ink,
            "titleFontWeight": "normal",
            "domainColor": faint,
            "tickColor": faint,
            "gridColor": faint,
            "gridOpacity": 0.55,
            "labelFontSize": 11,
            "titleFontSize": 12,
        },
        "legend": {
            "labelColor": ink,
            "titleColor": ink,
            "orient": "top",
            "title": None,
            "labelFontSize": 12,
            "labelLimit": 260,
            "symbolStrokeWidth": 2,
            "columns": 3,
        },
        "title": {"color": ink},
        "view": {"stroke": None},
    }


PAGE: Final = _config([f"var(--c{n})" for n in range(1, 9)], "var(--ink)", "var(--line)", "var(--c1)")
"""The configuration of charts in a report."""

NOTEBOOK: Final = _config(list(COLOURS), "#333333", "#dddddd", COLOURS[0]) | {"background": "white"}
"""The configuration of a chart by itself."""

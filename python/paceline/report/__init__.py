"""Reports: one self-contained HTML file about one result, or about several side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline._lazy import attach

if TYPE_CHECKING:
    from paceline.report.sweeps import write_sweep_report
    from paceline.report.writing import write_report

__all__ = ["write_report", "write_sweep_report"]

attach(
    __name__,
    {
        "sweeps": ("write_sweep_report",),
        "writing": ("write_report",),
    },
)

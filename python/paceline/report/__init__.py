"""Reports: one self-contained HTML file about one result, or about several side by side."""

from __future__ import annotations

from paceline.report.writing import write_report

__all__ = ["write_report"]

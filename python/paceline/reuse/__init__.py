"""Hits of prefix caches against their capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline._lazy import attach

if TYPE_CHECKING:
    from paceline.reuse.chart import hit_chart, write_hit_page
    from paceline.reuse.curve import hit_curve
    from paceline.reuse.replayed import replayed_hits
    from paceline.reuse.tiers import tier_hits
    from paceline.reuse.times import reuse_times

__all__ = ["hit_chart", "hit_curve", "replayed_hits", "reuse_times", "tier_hits", "write_hit_page"]

attach(
    __name__,
    {
        "chart": ("hit_chart", "write_hit_page"),
        "curve": ("hit_curve",),
        "replayed": ("replayed_hits",),
        "tiers": ("tier_hits",),
        "times": ("reuse_times",),
    },
)

"""Rank prompts by the length of their answers, and score traces for schedulers.

A ranker is trained on prompts and the lengths of their answers, and scores new prompts: higher for longer.
The scheduler `paceline.policies.pars` reads such scores from a trace.
"""

from __future__ import annotations

from paceline.rank.calibration import Calibration
from paceline.rank.cross_model import cross_model
from paceline.rank.metrics import Tau, kendall_tau, tau_by, tau_with_interval
from paceline.rank.noise import noisy_scores
from paceline.rank.pairs import Pairs, draw_pairs
from paceline.rank.ranker import ListwiseRanker, PairwiseRanker, PointwiseRanker, Ranker, load

__all__ = [
    "Calibration",
    "ListwiseRanker",
    "Pairs",
    "PairwiseRanker",
    "PointwiseRanker",
    "Ranker",
    "Tau",
    "cross_model",
    "draw_pairs",
    "kendall_tau",
    "load",
    "noisy_scores",
    "tau_by",
    "tau_with_interval",
]

"""The prediction of LLMServingSim for a run, from its printed output."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path

from paceline._arguments import typed
from paceline.errors import ConfigError
from paceline.kernels.typed import read_text
from paceline.validation.comparison import Statistics

__all__ = ["read_peer"]

_METRICS = {"TTFT": "ttft", "TPOT": "tpot", "Latency": "e2e"}


@typed()
def read_peer(path: str | PathLike[str]) -> dict[str, Statistics]:
    """Read the column ``Sim`` of LLMServingSim's comparison.

    Parameters
    ----------
    path
        Its text: a line such as ``TTFT Mean  65456.6  65820.2  +0.6%``, in milliseconds, for each metric and
        statistic.

    Returns
    -------
    dict
        By metric and statistic, in seconds.

    Raises
    ------
    ConfigError
        If no line has this form, or a line that starts with a metric has another.
    """
    found: dict[str, dict[str, float]] = {}
    for number, line in enumerate(read_text(Path(path)).splitlines(), start=1):
        words = line.split()
        if len(words) < 2 or words[0] not in _METRICS:
            continue
        try:
            seconds = float(words[3].replace(",", "")) / 1000
            if not math.isfinite(seconds):
                raise ValueError("must be finite")
        except (IndexError, ValueError) as error:
            raise ConfigError(
                f"{path}, line {number}: must be metric, statistic, measured and simulated ms, was {line!r}"
            ) from error
        found.setdefault(_METRICS[words[0]], {})[words[1].lower()] = seconds
    if not found:
        raise ConfigError(f"{path} must have lines that start with {', '.join(_METRICS)}, had none")
    return dict(found)

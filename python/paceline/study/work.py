"""How a study is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paceline._cores import threads

__all__ = ["Work"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How to run a study, and where to report its progress.

    Parameters
    ----------
    quick
        Replay fewer requests, to see that the study runs.
    data
        A folder of real data that a study may use in place of distributions fitted to it; ``None`` for
        those.
    workers
        Replays at a time; ``None`` for one on each core that this process may use. The pages do not depend
        on it.
    report
        Called on the thread that runs the study, after each replay, with what was replayed, the requests
        replayed so far and their total.

    Raises
    ------
    ConfigError
        If ``workers`` is below 1.

    Examples
    --------
    >>> Work(quick=True).pick(4000, 40)
    40
    """

    quick: bool = False
    data: Path | None = None
    workers: int | None = None
    report: Callable[[str, int, int], object] | None = None

    def __post_init__(self) -> None:
        threads(self.workers)

    def pick(self, full: int, quick: int) -> int:
        """Return a number of requests or seeds: ``quick`` in a quick run, else ``full``."""
        return quick if self.quick else full

    def threads(self) -> int:
        """Return how many replays run at a time."""
        return threads(self.workers)

"""Searches for sustainable rates, each done once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from paceline.planning import Capacity, capacity
from paceline.replaying import replay
from paceline.result import Result
from paceline.study.arrow.systems import TITLES, Setting
from paceline.study.arrow.workloads import WORKLOADS, Load, load
from paceline.study.work import Work

__all__ = ["TARGET", "Searches"]

TARGET: Final = 0.90
_Key = tuple[str, str, str]


class Searches:
    """The study's searches and replays, by workload, system and the name of a setting.

    Parameters
    ----------
    work
        How to run.
    settings
        By name; ``""`` is the study's own.
    """

    def __init__(self, work: Work, settings: dict[str, Setting]) -> None:
        self.work = work
        self.settings = settings
        self.loads: dict[str, Load] = {
            name: load(name, work.data, 300 if work.quick else None) for name in WORKLOADS
        }
        self._found: dict[_Key, Capacity] = {}
        self._wanted: dict[_Key, int] = {}
        self._total = self._done = 0

    def announce(self, keys: Iterable[_Key]) -> None:
        """Add searches to those of the next `run`."""
        for key in keys:
            if key not in self._wanted:
                self._wanted[key] = len(self.loads[key[0]].trace)
                self._total += self._wanted[key]

    def run(self) -> None:
        """Do the announced searches, and report after each."""
        for key, requests in self._wanted.items():
            self.of(*key)
            self._done += requests
            if self.work.report is not None:
                self.work.report(f"{WORKLOADS[key[0]].title}, {TITLES[key[1]]}", self._done, self._total)

    def of(self, workload: str, system: str, setting: str = "") -> Capacity:
        """Return the sustainable rate of a system, with its curve.

        Variations are searched from an eighth to four times the rate of the study's own setting,
        more coarsely.
        """
        key = (workload, system, setting)
        if key not in self._found:
            at, how = self.loads[workload], self.settings[setting]
            own = self.rate(workload, system) if setting else math.nan
            slo = how.objectives(at.slo)
            self._found[key] = capacity(
                at.trace,
                how.cluster(system),
                how.policy(system, slo),
                slo,
                TARGET,
                rule=how.rule,
                tolerance=0.05 if setting or self.work.quick else 0.02,
                workers=self.work.workers,
                between=(None, None) if math.isnan(own) else (own / 8, 4 * own),
            )
        return self._found[key]

    def rate(self, workload: str, system: str, setting: str = "") -> float:
        """Return the sustainable rate in requests per second; NaN if no rate passes."""
        found = self.of(workload, system, setting).rate
        return math.nan if found is None else found

    def ratio(self, workload: str, over: str, setting: str = "") -> float:
        """Return Arrow's sustainable rate over another system's."""
        return self.rate(workload, "arrow", setting) / self.rate(workload, over, setting)

    def replayed(self, workload: str, system: str, rate: float, gpus: int = 8) -> Result:
        """Return the replay of a system on so many GPUs at a rate."""
        at, how = self.loads[workload], self.settings[""]
        trace = at.trace.stretched(self.of(workload, "arrow").own / rate)
        return replay(trace, how.cluster(system, gpus), how.policy(system, at.slo, gpus))

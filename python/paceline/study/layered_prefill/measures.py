"""What is measured of a replay, and how tables name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from paceline._clock import TICKS_PER_SECOND
from paceline.result import Result

__all__ = ["LATENCIES", "MEASURES", "Measure", "Served", "serve"]


class Measure(NamedTuple):
    """How tables name a field of `Served`, in which unit, and the factor to that unit."""

    name: str
    unit: str
    scale: float = 1.0

    @property
    def column(self) -> str:
        """The heading of a column."""
        return f"{self.name}, {self.unit}" if self.unit else self.name


MEASURES: Final = {
    "ttft": Measure("mean TTFT", "s"),
    "ttft_p99": Measure("p99 TTFT", "s"),
    "tbt": Measure("mean TBT", "ms", 1e3),
    "tbt_p99": Measure("p99 TBT", "ms", 1e3),
    "tbt_std": Measure("TBT deviation", "ms", 1e3),
    "e2e": Measure("E2E", "s"),
    "load": Measure("expert load", "GB/req", 1e-9),
    "energy": Measure("energy", "mJ/tok", 1e3),
    "throughput": Measure("throughput", "tok/s"),
    "batch": Measure("batch", ""),
    "fairness": Measure("Jain's index", ""),
}
"""By field of `Served`."""

LATENCIES: Final = ("ttft", "ttft_p99", "tbt", "tbt_p99")
"""The columns of Table 6."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The measures of one replay: seconds, bytes a request, joules a token, and all tokens a second."""

    result: Result
    ttft: float
    ttft_p99: float
    tbt: float
    tbt_p99: float
    tbt_std: float
    e2e: float
    load: float
    energy: float
    throughput: float
    batch: float
    fairness: float


def serve(result: Result) -> Served:
    """Measure a replay."""
    requests, gaps, totals = result.requests, result.itl, result.totals()
    ttft = requests["ttft"].drop_nulls().to_numpy()
    # Tokens a second of each request after its first.
    rates = 1.0 / requests["tpot"].drop_nulls().to_numpy()
    return Served(
        result=result,
        ttft=float(ttft.mean()),
        ttft_p99=float(np.quantile(ttft, 0.99)),
        tbt=gaps.sum_ticks / max(gaps.count, 1) / TICKS_PER_SECOND,
        tbt_p99=gaps.quantile_s(0.99) or 0.0,
        tbt_std=float(np.sqrt(gaps.variance or 0.0)),
        e2e=float(requests["e2e"].drop_nulls().to_numpy().mean()),
        load=float(totals.expert_bytes_per_request or 0.0),
        energy=float(totals.energy_per_token_j or 0.0),
        throughput=float(totals.total_tokens_per_s or 0.0),
        batch=totals.mean_batch_busy,
        # Jain, Chiu, Hawe: A Quantitative Measure of Fairness and Discrimination (DEC-TR-301, 1984).
        fairness=float(rates.sum() ** 2 / (len(rates) * (rates**2).sum())),
    )

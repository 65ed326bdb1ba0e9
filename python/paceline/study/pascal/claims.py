"""The paper's claims as conditions on a row of `comparison.summary`."""

from __future__ import annotations

from typing import Final

from paceline.study.claims import Claim
from paceline.study.pascal.schedulers import PAPER

__all__ = ["CLAIMS", "COMPARABLE", "NEAR_ZERO_S"]

COMPARABLE: Final = 0.01
"""Most by which violations may exceed a baseline's and be "comparable": one request in a hundred. Chosen."""

NEAR_ZERO_S: Final = 1.0
"""Most P99 blocking that is "near zero", beside the paper's 27.39 s without migration. Chosen."""

_WORSE: Final = {name: PAPER["headline", f"alpacaeval {name} worse"].number for name in ("FCFS", "RR")}
_THROUGHPUT: Final = PAPER["claims", "throughput"].number

CLAIMS: Final = (
    Claim(
        "tails",
        "lowest tail TTFT at nearly every length, at worst 6.12% above FCFS's, 9.23% above RR's (V.B)",
        "worse FCFS at most 6.12%, worse RR at most 9.23%, and a cut against each",
        lambda row: all(
            row[f"worse {name}"] <= most and row[f"cut {name}"] > 0 for name, most in _WORSE.items()
        ),
    ),
    Claim(
        "violations",
        "violations lower than, or comparable with, both baselines' (V.B)",
        "violations at most one percentage point above the lower of FCFS's and RR's",
        lambda row: row["violations"] <= min(row["FCFS's"], row["RR's"]) + COMPARABLE,
    ),
    Claim(
        "throughput",
        "throughput within 3% of both baselines' (V.B)",
        "throughput within 3%",
        lambda row: abs(row["throughput"]) <= _THROUGHPUT,
    ),
    Claim(
        "blocking",
        "migration keeps P99 blocking near zero (V.D)",
        "blocking at most 1 s",
        lambda row: row["blocking"] <= NEAR_ZERO_S,
    ),
    Claim(
        "migration",
        "without migration, violations are markedly higher (V.D)",
        "violations below NoMigration's",
        lambda row: row["violations"] < row["NoMigration's"],
    ),
    Claim(
        "adaptivity",
        "without adaptivity, violations and end-to-end latency are higher (V.D)",
        "violations below NonAdaptive's, e2e median and e2e tail above 0",
        lambda row: row["violations"] < row["NonAdaptive's"] and min(row["e2e median"], row["e2e tail"]) > 0,
    ),
)

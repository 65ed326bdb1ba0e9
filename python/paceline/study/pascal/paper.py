"""What the paper says in its text (arXiv:2602.11530), by section; its figures come without numbers."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ADAPTIVE_VIOLATIONS",
    "BLOCKING_P99_S",
    "E2E_MEDIAN_WORSE",
    "E2E_TAIL_WORSE",
    "FCFS_SLOWDOWN",
    "HEAVY",
    "NON_ADAPTIVE_VIOLATIONS",
    "RR_SLOWDOWN",
    "SLO_QOE",
    "SOURCE",
    "TAIL_CUT",
    "TAIL_CUT_S",
    "TAIL_WORSE",
    "TAIL_WORSE_S",
    "THROUGHPUT_WITHIN",
    "TPOT_S",
    "TRANSFER_P99_S",
    "TTFAT_S",
]

SOURCE: Final = (
    "Eunyeong Cho, Jehyeon Bang, Ranggi Hwang and Minsoo Rhu: PASCAL: A Phase-Aware Scheduling Algorithm for "
    "Serving Reasoning-based Large Language Models. HPCA 2026, arXiv:2602.11530. The paper's numbers are "
    "those of its text."
)

# III.A, Figure 5's caption: targets of the answering phase.
TTFAT_S: Final = 0.25
TPOT_S: Final = 0.100
SLO_QOE: Final = 0.95

# III.B: reasoning latency over the oracle's, FCFS at 128 reasoning tokens and round robin at 2,048.
FCFS_SLOWDOWN: Final = 5.14
RR_SLOWDOWN: Final = 1.75

# V.B: the largest cut in tail TTFT, as a share and in seconds, by workload and baseline.
TAIL_CUT: Final = {
    ("alpacaeval", "FCFS"): 0.61,
    ("arena-hard", "FCFS"): 0.72,
    ("alpacaeval", "RR"): 0.33,
    ("arena-hard", "RR"): 0.29,
}
TAIL_CUT_S: Final = {
    ("alpacaeval", "FCFS"): 43.22,
    ("arena-hard", "FCFS"): 64.21,
    ("alpacaeval", "RR"): 89.91,
    ("arena-hard", "RR"): 72.73,
}
# V.B: AlpacaEval2.0's worst cases, in seconds and as a share of the baseline's.
TAIL_WORSE_S: Final = {"FCFS": 13.30, "RR": 8.25}
TAIL_WORSE: Final = {"FCFS": 0.0612, "RR": 0.0923}
# V.B: throughput differs from the baselines' by no more.
THROUGHPUT_WITHIN: Final = 0.03

# V.C: P99 of KV transfers at high rates.
TRANSFER_P99_S: Final = {"alpacaeval": 0.14, "arena-hard": 0.25}

# V.D: without migration; PASCAL's is "near zero".
BLOCKING_P99_S: Final = 27.39
# V.D: SLO violations on AlpacaEval2.0 at a high rate.
NON_ADAPTIVE_VIOLATIONS: Final = 0.0745
ADAPTIVE_VIOLATIONS: Final = 0.0069
E2E_MEDIAN_WORSE: Final = 0.201
E2E_TAIL_WORSE: Final = 0.097

# V.D, Figure 16: cut against FCFS, worse for long reasoning; cut against round robin, worst case.
HEAVY: Final = {"FCFS cut": 0.70, "FCFS worse": 0.068, "RR cut": 0.139, "RR worse": 0.077}

"""What a simulator answered, in the same terms for all of them."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: Two times are the same if they differ by less than this: one stores doubles, one integers of a picosecond.
SAME_S = 1e-6


@dataclass(frozen=True)
class Answers:
    """The moments of each request in seconds from the trace's start, in its order; NaN if there was none."""

    arrival: NDArray[np.float64]
    output_tokens: NDArray[np.int64]
    first_token: NDArray[np.float64]
    finish: NDArray[np.float64]

    def summary(self) -> dict[str, float]:
        """Return mean, median and P99 of TTFT, TPOT and E2E in seconds, and output tokens a second.

        TTFT is first token - arrival, E2E finish - arrival, and TPOT (finish - first token) / (tokens - 1) of
        the requests with more than one token. Throughput is over the time until the last finish.
        """
        found: dict[str, float] = {"finished": float(np.isfinite(self.finish).sum())}
        many = self.output_tokens > 1
        gaps = (self.finish - self.first_token)[many] / (self.output_tokens[many] - 1)
        columns = {
            "ttft": self.first_token - self.arrival,
            "tpot": gaps,
            "e2e": self.finish - self.arrival,
        }
        for name, values in columns.items():
            known = values[np.isfinite(values)]
            found[f"{name}_mean"] = float(known.mean())
            found[f"{name}_median"] = float(np.median(known))
            found[f"{name}_p99"] = float(np.percentile(known, 99))
        done = np.isfinite(self.finish)
        found["tokens_per_s"] = float(self.output_tokens[done].sum() / self.finish[done].max())
        return found

    def digest(self) -> str:
        """Return the SHA-256 of all moments in whole microseconds."""
        whole = np.nan_to_num(1e6 * np.stack([self.first_token, self.finish]), nan=-1.0).round().astype("<i8")
        return hashlib.sha256(whole.tobytes()).hexdigest()

    def against(self, other: Answers) -> dict[str, float | int | None]:
        """Return how these moments differ from others of the same requests.

        The share of requests whose two moments are the same to a microsecond, the largest differences in
        seconds, and the first request (row from 0) that differs.
        """
        first = self.first_token - other.first_token
        last = self.finish - other.finish
        differs = ~((np.abs(first) < SAME_S) & (np.abs(last) < SAME_S))
        return {
            "same": float(1 - differs.mean()),
            "first_token_most_s": float(np.nanmax(np.abs(first))),
            "finish_most_s": float(np.nanmax(np.abs(last))),
            "first_row": int(differs.argmax()) if differs.any() else None,
        }


def answers_of(rows: Sequence[tuple[int, int, int]], moments: Iterable[Sequence[float | None]]) -> Answers:
    """Join the requests that were asked with what came back: first token and finish of each, None if never.

    Raises
    ------
    ValueError
        If there are more or fewer answers than requests, or a time lies before its request's arrival.
    """
    pairs = [[np.nan if one is None else float(one) for one in pair] for pair in moments]
    if len(pairs) != len(rows):
        raise ValueError(f"{len(rows)} requests were asked, and {len(pairs)} answered")
    arrival = np.array([row[0] / 1e3 for row in rows])
    table = np.array(pairs, dtype=np.float64).reshape(len(rows), 2)
    if (table < arrival[:, None] - SAME_S).any():
        raise ValueError("an answer lies before its request's arrival")
    tokens = np.array([row[2] for row in rows], dtype=np.int64)
    return Answers(arrival, tokens, table[:, 0], table[:, 1])


def read_answers(path: Path, rows: Sequence[tuple[int, int, int]]) -> Answers:
    """Read a driver's CSV: `first_token` and `finish` of each request in seconds, empty if never."""
    with path.open(newline="", encoding="utf-8") as file:
        moments = [
            [float(row[name]) if row[name] else None for name in ("first_token", "finish")]
            for row in csv.DictReader(file)
        ]
    return answers_of(rows, moments)

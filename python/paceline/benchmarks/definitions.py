"""What each benchmark client means by TTFT, TPOT, ITL and E2E, so that a prediction means the same.

Read from the sources of vLLM (``vllm/benchmarks/serve.py``, 009e6d4), SGLang (``bench_serving.py``, 0033168),
AIPerf (db4f6397), guidellm (``schemas/base/request_stats.py`` and ``benchmark/schemas/metrics.py``, d07502b5)
and inference-perf (``reportgen/base.py``, 370914f).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["QUANTILES", "Definition", "Served", "definitions_of"]

Floats = NDArray[np.float64]

QUANTILES: Final = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """Latencies of requests that completed, in seconds; nan where a request has none.

    Parameters
    ----------
    ttft, e2e, output_tokens
        A value for each request.
    last
        The time to the last token, which some tools tell from the end; None: `e2e`.
    gaps
        The times between tokens, or chunks, of all requests together; None if they are not known, and a
        function from a share to a quantile (from None to the mean) where only a sketch of them is kept.
    """

    ttft: Floats
    e2e: Floats
    output_tokens: NDArray[np.int64]
    last: Floats | None = None
    gaps: Floats | Callable[[float | None], float | None] | None = None

    def decode(self) -> tuple[Floats, Floats]:
        """Return seconds a token after the first, and tokens after the first, of requests with several."""
        several = self.output_tokens > 1
        after = self.output_tokens[several].astype(np.float64) - 1.0
        return (self.last_token[several] - self.ttft[several]) / after, after

    @property
    def last_token(self) -> Floats:
        """The time to the last token of each request."""
        return self.e2e if self.last is None else self.last


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric as one tool defines it.

    Parameters
    ----------
    text
        The definition, with n for the request's output tokens.
    values
        The values and their weights; None for equal ones.
    pooled
        Whether it is of the gaps of all requests together instead.
    """

    text: str
    values: Callable[[Served], tuple[Floats, Floats | None]] | None = None
    pooled: bool = False

    def statistics(self, served: Served) -> dict[str, float] | None:
        """Return mean, median, P90, P95 and P99; None if there is nothing to take them of."""
        if self.pooled:
            return _pooled(served)
        assert self.values is not None, "Invariant: a metric is of requests or of their gaps"
        values, weights = self.values(served)
        known = np.isfinite(values)
        values, weights = values[known], None if weights is None else weights[known]
        if not values.size or (weights is not None and not weights.sum()):
            return None
        if weights is None:
            return _plain(values)
        order = np.argsort(values, kind="stable")
        share = np.cumsum(weights[order]) / weights.sum()
        at = {name: min(int(np.searchsorted(share, q)), values.size - 1) for name, q in QUANTILES.items()}
        quantiles = {name: float(values[order][place]) for name, place in at.items()}
        return {"mean": float(np.average(values, weights=weights)), **quantiles}


def _plain(values: Floats) -> dict[str, float]:
    quantiles = np.quantile(values, list(QUANTILES.values()))
    return {"mean": float(values.mean()), **dict(zip(QUANTILES, map(float, quantiles), strict=True))}


def _pooled(served: Served) -> dict[str, float] | None:
    if served.gaps is None:
        return None
    if not callable(served.gaps):
        return _plain(served.gaps) if served.gaps.size else None
    asked = {name: served.gaps(q) for name, q in {"mean": None, **QUANTILES}.items()}
    known = {name: value for name, value in asked.items() if value is not None}
    return known or None


def _ones(values: Floats) -> Floats:
    return np.ones(values.shape)


_TTFT: Final = Definition("first chunk - sending", lambda served: (served.ttft, None))
_E2E: Final = Definition("last chunk - sending", lambda served: (served.e2e, None))
_TPOT: Final = Definition(
    "(E2E - TTFT) / (n - 1), of requests with n > 1", lambda served: (served.decode()[0], None)
)
_GAPS: Final = Definition("times between chunks, of all requests together", pooled=True)
_VLLM: Final = {"ttft": _TTFT, "tpot": _TPOT, "itl": _GAPS, "e2e": _E2E}

_DEFINITIONS: Final[dict[str, dict[str, Definition]]] = {
    "vllm": _VLLM,
    "sglang": _VLLM,
    "aiperf": {
        "ttft": _TTFT,
        "itl": Definition(f"{_TPOT.text}: vLLM's TPOT", _TPOT.values),
        "icl": Definition("times between chunks, of all requests together: vLLM's ITL", pooled=True),
        "e2e": _E2E,
    },
    # Its distributions take the smallest value whose cumulated weight is large enough.
    "guidellm": {
        "ttft": Definition("first token - start", lambda served: (served.ttft, _ones(served.ttft))),
        "tpot": Definition(
            "(last token - start) / n, weighted by n",
            lambda served: (
                served.last_token / served.output_tokens,
                served.output_tokens.astype(np.float64),
            ),
        ),
        "itl": Definition(
            "(last - first token) / (n - 1), weighted by n - 1", lambda served: served.decode()
        ),
        "e2e": Definition("end - start", lambda served: (served.e2e, _ones(served.e2e))),
    },
    "inference-perf": {
        "ttft": Definition("first token - start", lambda served: (served.ttft, None)),
        "tpot": Definition("(last - first token) / (n - 1), of requests with n > 1", _TPOT.values),
        "itl": Definition("times between tokens, of all requests together", pooled=True),
        "e2e": Definition("end - start", lambda served: (served.e2e, None)),
        "ntpot": Definition(
            "E2E / n, TTFT included", lambda served: (served.e2e / served.output_tokens, None)
        ),
    },
}
_DEFINITIONS["llm-d"] = _DEFINITIONS["inference-perf"]


def definitions_of(tool: str) -> dict[str, Definition]:
    """Return the definition of each metric that a tool reports.

    Parameters
    ----------
    tool
        Such as ``guidellm``.

    Examples
    --------
    >>> definitions_of("guidellm")["tpot"].text
    '(last token - start) / n, weighted by n'

    A request of 5 tokens that took 1.4 s, 0.4 s of them to its first, by two tools:

    >>> served = Served(np.array([0.4]), np.array([1.4]), np.array([5]))
    >>> [round(definitions_of(tool)["tpot"].statistics(served)["mean"], 3) for tool in ("vllm", "guidellm")]
    [0.25, 0.28]
    """
    return dict(_DEFINITIONS[tool])

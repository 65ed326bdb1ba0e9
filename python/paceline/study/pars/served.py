"""Requests with scores, served by one vLLM instance on two A100-40GB."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from paceline.deployment import Cluster, Instance
from paceline.rank import noisy_scores
from paceline.result import Result
from paceline.study.pars.corpora import Corpus
from paceline.study.trials import Trial
from paceline.trace import Trace

__all__ = ["BURST", "CLUSTER", "SYSTEMS", "Latency", "Noise", "Served", "latency"]

BURST: Final = 2_000
"""Requests of a burst; as in the paper."""

#: One instance, so that there is one queue; a variation has one on each GPU.
CLUSTER: Final = Cluster(
    [Instance(model="llama-3.1-8b", gpu="a100-40gb", tensor_parallel=2, max_model_len="auto")]
)

SYSTEMS: Final = {
    "fcfs": "FCFS",
    "pointwise": "pointwise",
    "listwise": "listwise",
    "cross": "PARS, cross-model",
    "pairwise": "PARS",
    "oracle": "oracle",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Scores with a wanted tau against the true lengths, in place of a ranker's."""

    tau: float
    kind: Literal["gaussian", "outliers"] = "gaussian"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Requests drawn from a corpus with replacement, with Poisson arrivals or all at once.

    Parameters
    ----------
    corpus
        Their lengths.
    scores
        Of each request of the corpus, by the name of what made them; ``oracle`` has the true lengths.
    requests
        How many.
    rate
        Requests per second; None: all arrive at once.
    """

    corpus: Corpus
    score: str | Noise
    scores: npt.NDArray[np.float64] | None = field(default=None, compare=False, hash=False)
    requests: int = BURST
    rate: float | None = None

    def draw(self, seed: int) -> Trace:
        """Draw the requests of a seed: the same ones for all scores."""
        rng = np.random.default_rng([2510, 3243, seed])
        rows = rng.integers(len(self.corpus), size=self.requests)
        gaps = rng.exponential(size=self.requests)
        output = self.corpus.output_tokens[rows]
        if isinstance(self.score, Noise):
            noise = self.score
            score = noisy_scores(output, tau=noise.tau, kind=noise.kind, seed=seed)
        else:
            score = output.astype(np.float64) if self.scores is None else self.scores[rows]
        arrival = np.zeros(self.requests) if self.rate is None else np.cumsum(gaps) / self.rate
        return Trace.from_columns(
            arrival=arrival, prompt_tokens=self.corpus.prompt_tokens[rows], output_tokens=output, score=score
        )


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds per output token, from arrival to the last token, over a replay's requests.

    Attributes
    ----------
    mean, p90
        Over requests.
    span_s
        From the first arrival to the last token.
    waited_s
        The longest time before a request's first token.
    rate
        Requests finished a second while the middle half of them finished.
    """

    mean: float
    p90: float
    span_s: float
    waited_s: float
    rate: float


def latency(_: Trial, trace: Trace, result: Result) -> Latency:
    """Return the latency per token of a replay: end-to-end latency over output tokens, as in the paper."""
    rows = result.requests
    end = rows["e2e"].to_numpy()
    each = end / trace.frame.get_column("output_tokens").to_numpy()
    finish = rows["arrival"].to_numpy() + end
    first, last = np.quantile(finish, [0.25, 0.75])
    return Latency(
        mean=float(each.mean()),
        p90=float(np.quantile(each, 0.9)),
        span_s=float(finish.max()),
        waited_s=float(rows["ttft"].to_numpy().max()),
        rate=len(finish) / 2 / float(last - first),
    )

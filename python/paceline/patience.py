"""For how long clients wait for answers, and when they send a request again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline import _check
from paceline._arguments import typed_fields
from paceline._clock import moment
from paceline.errors import ConfigError

__all__ = ["Patience"]


@dataclass(frozen=True, slots=True)
@typed_fields()
class Patience:
    """For how long clients wait for an answer, and how often they send a request again.

    A client whose time-out passes cancels its request: it has the status ``cancelled``, whatever tokens it
    has by then. One that waits leaves at once, and one that runs at the end of the step under way. A request
    that timed out, was rejected by the policy, or left a router that held it for too long (``gave_up``) is
    sent again, up to so many times. It keeps its place among the clients' requests in flight meanwhile.
    Requests that wait for its answer wait for that of the last time.

    Parameters
    ----------
    timeout_s
        Seconds from when a request is sent until its client cancels it. None: clients wait for ever.
    retries
        How often a request is sent again.
    backoff_s
        Seconds from its end to the first time that it is sent again.
    growth
        The factor of each later wait to the one before, a whole number: 1 keeps them equal.
    longest_s
        The longest wait.
    jitter
        The part of each wait of which a random share is left out, from 0 to 1.
    seed
        The seed of these shares: one is drawn for each row of the trace and each time.

    Raises
    ------
    ConfigError
        If a time is negative, or a number is out of range.

    Examples
    --------
    A step takes 10 ms, and one request runs at a time. The first runs until 20 ms. The second times out at
    25 ms, in the step that yields its token, and is sent again 5 ms later:

    >>> from paceline import Affine, Cluster, Concurrency, Instance, Trace, policies, replay
    >>> trace = Trace.from_columns(arrival=[0, 0], prompt_tokens=[8, 8], output_tokens=[2, 1])
    >>> cluster = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=101)])
    >>> clients = Concurrency(patience=Patience(timeout_s=0.025, retries=1, backoff_s=0.005, jitter=0))
    >>> result = replay(trace, cluster, policies.vllm(max_num_seqs=1), clients=clients)
    >>> result.requests.select("arrival", "finish", "sent_again", "wasted_tokens", "status").rows()
    [(0.0, 0.02, 0, 0, 'finished'), (0.03, 0.04, 1, 1, 'finished')]

    Notes
    -----
    The defaults of the waits are those of OpenAI's Python client (``openai/_base_client.py`` 1.x,
    ``_calculate_retry_timeout``: 0.5 s, doubled up to 8 s, less a random share of a quarter); its
    time-out is 600 s, and it sends again twice.
    """

    timeout_s: float | None = None
    retries: int = 0
    backoff_s: float = 0.5
    growth: int = 2
    longest_s: float = 8.0
    jitter: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        if self.timeout_s is not None:
            moment("timeout_s of a Patience", self.timeout_s)
        _check.count("retries of a Patience", self.retries, least=0, most=1000)
        moment("backoff_s of a Patience", self.backoff_s)
        _check.count("growth of a Patience", self.growth, least=1, most=1000)
        moment("longest_s of a Patience", self.longest_s)
        if not 0 <= self.jitter <= 1:
            raise ConfigError(f"jitter of a Patience must be from 0 to 1, was {self.jitter!r}")
        _check.count("seed of a Patience", self.seed, least=0, most=2**64 - 1)
        if self.timeout_s is None and self.retries == 0:
            raise ConfigError("a Patience must have a timeout_s, retries, or both, had neither")

    def to_wire(self) -> dict[str, Any]:
        """Return the rules as the engine takes them."""
        return {
            "timeout": None if self.timeout_s is None else moment("timeout_s", self.timeout_s),
            "retries": self.retries,
            "backoff": moment("backoff_s", self.backoff_s),
            "growth": self.growth,
            "longest": moment("longest_s", self.longest_s),
            "jitter": round(self.jitter * 1e6),
            "seed": self.seed,
        }

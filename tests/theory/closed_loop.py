"""A server of several seats, and clients that think between an answer and their next request."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paceline import Affine, Cluster, Instance, Trace, policies, replay
from paceline.result import Result

STEP_S = 0.001
"""Each step takes a millisecond, whatever is in its batch: a request of n tokens is served for n ms."""

CLUSTER = Cluster([Instance(cost=Affine(step_s=STEP_S), num_blocks=100_001)])


def served(think_s: NDArray[np.float64], tokens: NDArray[np.int64], seats: int, **options: float) -> Result:
    """Replay clients, each with a session of its own, on an instance with some seats.

    Parameters
    ----------
    think_s, tokens
        By client and turn: how long the client thinks before the turn, and the output tokens of it.
    """
    clients, turns = think_s.shape
    # Only the first turn arrives by itself; the others keep their order.
    arrival = np.where(np.arange(turns) == 0, think_s, 10_000.0 + np.arange(turns))
    thinks = np.where(np.arange(turns) == 0, np.nan, think_s)
    order = np.argsort(arrival, axis=None, kind="stable")
    trace = Trace.from_columns(
        arrival=arrival.ravel()[order],
        prompt_tokens=np.ones(clients * turns, dtype=np.int64),
        output_tokens=tokens.ravel()[order],
        session=np.repeat(np.arange(clients), turns)[order],
        think_time=[None if np.isnan(one) else float(one) for one in thinks.ravel()[order]],
    )
    return replay(trace, CLUSTER, policies.vllm(max_num_seqs=seats), **options)

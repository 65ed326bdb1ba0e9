"""Programs of several calls: the next call is of the program that has been served least."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.ranked import ranked_scheduler
from paceline.policy import Expr, Policy, PrefixCache, Rule, accumulated, ilog2, maximum, minimum, req
from paceline.policy.stages import Preemption

__all__ = ["atlas", "plas"]


def _policy(
    name: str,
    service: Expr,
    shape: tuple[float, int],
    preemption: Preemption | None,
    routing: Rule,
    prefix_caching: bool | PrefixCache,
) -> Policy:
    first, queues = shape
    if not first > 0:
        raise PolicyError(f"first_queue must be above 0 tokens, was {first}")
    if queues < 1:
        raise PolicyError(f"queues must be at least 1, was {queues}")
    queue = minimum(ilog2(maximum(service / first, 1.0)), queues - 1)
    return Policy(
        name=name,
        scheduler=ranked_scheduler(
            (queue, req.arrival),  # type: ignore[arg-type]
            preemption=preemption,
            prefix_caching=prefix_caching,
        ),
        on_arrival=routing,
    )


@typed(PolicyError)
def plas(
    *,
    first_queue: float = 2048.0,
    queues: int = 8,
    preemption: Preemption | None = None,
    routing: Rule = "fewest_requests",
    prefix_caching: bool | PrefixCache = False,
) -> Policy:
    """Serve the calls of the program first whose calls have been served least so far.

    The service of a program, the tokens of its finished calls, places its next call in a
    queue: the first up to twice `first_queue` tokens, each further one up to twice as many. Queues are
    served in order, each first come, first served; a call of a better queue displaces others.

    Parameters
    ----------
    first_queue
        Tokens of service that end the first half of the first queue.
    queues
        How many there are.
    preemption
        What happens to the KV of a preempted call; None: a swap over PCIe.
    routing
        Which instance an arrival joins. Each instance counts the service that it gave.
    prefix_caching
        Whether full blocks are kept for later calls that start the same; a
        :class:`~paceline.policy.PrefixCache` says how.

    Returns
    -------
    Policy
        The policy. It reads the trace's ``session``, which is the program of a call.

    Examples
    --------
    >>> plas(queues=4).name
    'plas'

    Notes
    -----
    Source: Luo et al., "Autellix: An Efficient Serving Engine for LLM Agents as General Programs"
    (arXiv 2502.13965), program-level attained service. Different from it: service is
    counted in tokens, not in time; a call that exceeds the span of its queue while it
    runs is not demoted; a starved program is not promoted.
    """
    service = accumulated(by="session", prompt=1.0, output=1.0, when="finished")
    return _policy("plas", service, (first_queue, queues), preemption, routing, prefix_caching)


@typed(PolicyError)
def atlas(
    *,
    column: str = "critical_path",
    first_queue: float = 2048.0,
    queues: int = 8,
    preemption: Preemption | None = None,
    routing: Rule = "fewest_requests",
    prefix_caching: bool | PrefixCache = False,
) -> Policy:
    """Serve the calls first before which the shortest critical path of their program lies.

    As `plas`, for programs whose calls run side by side: the service before a call is that
    of the longest chain of calls that it waited for.

    Parameters
    ----------
    column
        The trace's column with that service, as `paceline.trace.critical_path` computes it:
        all that it counts has ended before the call arrives.
    first_queue, queues, preemption, routing, prefix_caching
        As of `plas`.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> atlas(queues=4).numbers
    ('critical_path',)

    Notes
    -----
    Source: as of `plas`: adaptive thread-level attained service; with the same differences.
    """
    return _policy("atlas", req.column(column), (first_queue, queues), preemption, routing, prefix_caching)

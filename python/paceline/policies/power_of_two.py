"""Power of two choices."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm import vllm
from paceline.policy import Policy, Scheduler, inst, pick

__all__ = ["power_of_two"]


@typed(PolicyError)
def power_of_two(*, choices: int = 2, seed: int = 0, scheduler: Scheduler | None = None) -> Policy:
    """Route to the one of two instances drawn at random that has fewer unfinished requests.

    Parameters
    ----------
    choices
        How many instances are drawn; of equals the one that was drawn first is picked.
    seed
        What the draws begin with.
    scheduler
        How instances form their steps; None: as vLLM.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> power_of_two().on_arrival
    pick(min=inst.routed_requests, among=2)

    Notes
    -----
    Source: Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing"
    (IEEE TPDS 2001); sgl-model-gateway 0.3.2, ``src/policies/power_of_two.rs``. The
    load is the router's own count of unfinished requests, as on the gateway's gRPC
    path; its HTTP path counts none, and compares token loads that it polls. The
    engine makes every decision in the logs of that code under
    ``tests/conformance/logs/routers/sglang_power_of_two``.
    """
    return Policy(
        name="power-of-two",
        scheduler=vllm().scheduler if scheduler is None else scheduler,
        on_arrival=pick(min=inst.routed_requests, among=choices),
        seed=seed,
    )

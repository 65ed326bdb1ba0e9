"""Routing by a hash of the first blocks of the prompt, with bounded loads."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm import vllm
from paceline.policy import Policy, Scheduler, affinity, cluster, first_of, inst, pick

__all__ = ["prefix_hash"]


@typed(PolicyError)
def prefix_hash(*, blocks: int = 16, load_factor: float = 1.25, scheduler: Scheduler | None = None) -> Policy:
    """Route prompts that begin alike to one instance, unless its load is far above the mean.

    Parameters
    ----------
    blocks
        How many blocks of the trace are hashed; a shorter prompt counts with all of its
        blocks.
    load_factor
        The instance must have at most so many times the mean of the unfinished requests,
        else the request goes to the least loaded.
    scheduler
        How instances form their steps; None: as vLLM with prefix caching.

    Returns
    -------
    Policy
        The policy, for a trace that says what prompts share.

    Examples
    --------
    >>> prefix_hash(blocks=4).on_arrival.rules[1]
    pick(min=inst.routed_requests)

    Notes
    -----
    Source: sgl-model-gateway, ``src/policies/prefix_hash.rs`` (0.3.2): the first 256
    tokens, a load factor of 1.25. 256 tokens are 16 blocks of 16; for a trace with
    blocks of 512 tokens, one block is the nearest. Differences: keys are assigned by
    rendezvous hashing, not on a ring of virtual nodes; of the instances behind the first
    the least loaded is picked at once.
    """
    overloaded = inst.there.routed_requests > load_factor * cluster.mean(inst.routed_requests)
    return Policy(
        name="prefix-hash",
        scheduler=vllm(prefix_caching=True).scheduler if scheduler is None else scheduler,
        on_arrival=first_of(
            affinity("prefix", blocks=blocks).unless(overloaded), pick(min=inst.routed_requests)
        ),
    )

"""Prefills that run one group of layers a step, while decodes run all."""

from __future__ import annotations

from typing import Any

from paceline.testing.reference.blocks import blocks_for
from paceline.testing.reference.policy_sim.admission import admit
from paceline.testing.reference.policy_sim.resume import resume_prefills
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step

_ADMIT = {"chunked": True, "count_decodes": True}


def groups_for(rule: dict[str, Any], tokens: int) -> int:
    """Return the groups of layers that a batch of ``tokens`` tokens runs in.

    Examples
    --------
    >>> rule = {"limits": [[512, 1], [1024, 2]], "tokens_per_group": 500, "most": 4}
    >>> [groups_for(rule, tokens) for tokens in (512, 513, 1025, 9000)]
    [1, 2, 3, 4]
    """
    most: int = rule["most"]
    per_group: int = rule["tokens_per_group"]
    beyond = blocks_for(tokens, per_group) if per_group else most
    groups: int = next((groups for limit, groups in rule["limits"] if tokens <= limit), beyond)
    return max(1, min(groups, most))


def advance_layers(state: State, step: Step, stage: dict[str, Any]) -> None:
    """Run the current batch through its next group of layers, or form a new batch.

    Only prefills belong to the batch; no request joins it before it has passed all layers. A request that is
    admitted to decode runs all layers. Decodes use up none of the batch's tokens.
    """
    if state.batch:
        state.group += 1
        for request, tokens in state.batch.items():
            step.add(request, tokens, "chunk", charged=False)
    else:
        step.left = step.budget
        resume_prefills(state, step)
        admit(state, step, _ADMIT)
        state.batch = {request: step.tokens[request] for request in step.prefills}
        state.group, state.groups = 0, groups_for(stage["groups"], sum(state.batch.values()))
    if state.batch:
        depth: int = stage["layers"]
        step.group = state.group, state.groups
        # The first groups have the layers that cannot be divided evenly.
        step.layers = depth // state.groups + (state.group < depth % state.groups), depth

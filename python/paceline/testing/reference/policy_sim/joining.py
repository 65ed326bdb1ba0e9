"""Limits of a step that depend on the instance, and prompts that may not join the requests that run."""

from __future__ import annotations

import math

from paceline.testing.reference.policy_sim.expression import evaluate
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step


def step_limits(state: State, now: int) -> tuple[int, int]:
    """Return the tokens of the step that is formed, and the tokens above which a prefill is long."""
    settings = state.settings
    tokens, longest = settings.max_num_batched_tokens, settings.long_prefill_token_threshold
    budget = settings.varying.get("tokens")
    if budget is not None:
        value = evaluate(budget["of"], state.scope(now, None))
        tokens = _whole(value, budget["least"], settings.max_num_batched_tokens)
    if settings.varying.get("chunk") is not None:
        longest = _whole(evaluate(settings.varying["chunk"], state.scope(now, None)), 0, 2**32 - 1)
    return tokens, longest


def _whole(value: float, least: int, most: int) -> int:
    if math.isnan(value):
        return least
    return math.floor(max(least, min(most, value)))


def prefills_are_full(state: State) -> bool:
    """Whether as many requests are in prefill as may be, those admitted in the step included."""
    most = state.settings.joining.get("prefills", 0)
    return 0 < int(most) <= sum(not request.decoding for request in state.continuing)


def is_passed_over(state: State, step: Step, request: Request, hit: int) -> bool:
    """Whether a prompt, of which ``hit`` tokens are cached, may not join the requests that run."""
    if any(request in other.tokens for other in state.under_way()):
        # It was preempted while a batch computes tokens of it.
        return True
    joining = state.settings.joining
    most = joining.get("long_prefills", 0)
    if most and _is_long(step, request.tokens - hit):
        long = [one for one in state.continuing if not one.decoding and _is_long(step, one.lacking)]
        if len(long) >= most:
            return True
    if _lacks_slot(state, request):
        return True
    bucket = joining.get("bucket")
    if bucket is None or not state.continuing:
        return False
    own, others = (evaluate(bucket, state.scope(step.start, one)) for one in (request, state.continuing[0]))
    return own != others and not (math.isnan(own) and math.isnan(others))


def _lacks_slot(state: State, request: Request) -> bool:
    """Whether as many adapters run as may, without that of a request."""
    most, adapter = state.settings.joining.get("adapters", 0), request.spec.adapter
    running = {one.spec.adapter for one in state.running} - {None}
    return adapter is not None and adapter not in running and 0 < most <= len(running)


def enter_adapter(state: State, request: Request) -> None:
    """Load the adapter of a request that was admitted, in place of the one that was used the longest ago."""
    most, adapter = state.settings.joining.get("adapters", 0), request.spec.adapter
    if not most or adapter is None or adapter in state.loaded:
        return
    state.loads += 1
    if len(state.loaded) == most:
        running = {one.spec.adapter for one in state.running}
        state.loaded.remove(next(one for one in state.loaded if one not in running))
    state.loaded.append(adapter)


def leave_adapter(state: State, request: Request) -> None:
    """Note that a request has left the batch: its adapter is used by others, or was used last by it."""
    adapter = request.spec.adapter
    if adapter in state.loaded and all(one.spec.adapter != adapter for one in state.running):
        state.loaded.remove(adapter)
        state.loaded.append(adapter)


def _is_long(step: Step, lacking: int) -> bool:
    return 0 < step.threshold < lacking

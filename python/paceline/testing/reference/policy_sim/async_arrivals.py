"""Deciding a step while the one before it runs (asynchronous scheduling).

The step is decided at the end of the running one, without what was not known when that started: requests that
arrived or migrated here since; blocks that were freed since by finished or migrated requests; and, where
tokens are drafted, how many drafts were accepted. A request that has ended with the running step still counts
as running: it keeps its seat and its blocks, may be preempted, and computes tokens if its end was not sure.

Where a preempted request loses the token that the decision does not know, the tokens of a step after which
decodes lack blocks count once the next step is decided.
"""

from __future__ import annotations

from paceline.testing.reference.policy_sim.joining import leave_adapter
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step
from paceline.testing.reference.policy_sim.tree_memory import DetachedBlocks


def release_due(state: State, until: int | None) -> None:
    """Queue the requests that had arrived by a moment; None: all. Announced ones come last, by arrival."""
    due = [one for one in state.queue.unknown if until is None or one.queued_at <= until]
    for request in sorted(due, key=lambda one: (one.announced, one.number if one.announced else 0)):
        request.announced = False
        state.queue.unknown.remove(request)
        state.queue.waiting.append(request)


def receive(state: State) -> None:
    """Queue the arrivals that a step which is formed now knows."""
    if state.unreceived_steps == 0:
        release_due(state, state.started if state.settings.schedule_ahead else None)


def receive_all(state: State) -> bool:
    """Queue all arrivals, as no step can be formed; return whether there were any."""
    arrived = bool(state.queue.unknown)
    state.unreceived_steps = 0
    release_due(state, None)
    return arrived


def note_step(state: State, step: Step) -> None:
    """Count a step that ends since the latest receipt of arrivals; after a prompt, one is due."""
    interval = state.settings.receive_interval
    state.unreceived_steps = 0 if step.prefills or state.batch else (state.unreceived_steps + 1) % interval


def recall_ended(state: State) -> None:
    """Put the requests that have ended with the latest step back at their places among the running ones."""
    ended = state.ended
    if not ended:
        return
    kept = [one for one in state.before if one in state.running or one in ended]
    state.running[:] = kept + [one for one in state.running if one not in kept]
    for request in ended:
        request.place = "running"


def may_lose(state: State, step: Step) -> bool:
    """Whether the step after one that ends may preempt, and drop tokens that this one yielded.

    That is so if not all decodes have blocks for their next tokens.
    """
    if not state.settings.drop_unseen:
        return False
    ran = [(one, step.tokens.get(one, 0)) for one in state.running]
    decodes = [
        (one, one.computed + tokens)
        for one, tokens in ran
        if (one.decoding or tokens == one.lacking)
        and not (tokens and one.generated + 1 == one.spec.last_token and not state.settings.unseen_ends)
    ]
    needed = sum(state.memory.lacking(one, computed + 1) for one, computed in decodes)
    needed += len(state.incoming.received) if state.resumes_as_accepted else 0
    return needed + state.spare > state.memory.free


def may_hold(state: State, request: Request) -> bool:
    """Whether the next token of a request may count once the next step is decided.

    A last one does not, as the decision knows it, nor does one that ends a phase, with which a rule is asked
    whether the request leaves.
    """
    if request.generated + 1 == request.spec.last_token:
        return state.settings.unseen_ends
    after_first = "on_prefilled" in state.asked and request.generated == 0
    ends = request.changes_phase and request.generated + 1 == request.spec.reasoning_tokens
    return not (after_first or ("on_answering" in state.asked and ends))


def hold_token(state: State, request: Request, step: Step, now: int) -> None:
    """Have the token that a step yields of a request count once the next step is decided."""
    request.decoding, request.pending = True, (step.start, now)
    if step.parts[request] in ("admitted", "chunk"):
        state.computed.append(request)


def count_pending(request: Request) -> bool:
    """Count the token of a request that does not count yet; return whether there is one."""
    if request.pending is None:
        return False
    start, end = request.pending
    request.pending = None
    request.generated += 1
    request.token_times.append(end)
    request.token_starts.append(start)
    request.yielded, request.in_set = 1, True
    return True


def detach(state: State, request: Request, computed: list[Request]) -> list[int]:
    """Take a request's blocks as it leaves. What it has computed is inserted in a tree as if it had stayed.

    ``computed``: the requests of which that is due.
    """
    blocks = state.memory.detach_blocks(request)
    if isinstance(blocks, DetachedBlocks):
        state.rows = [one for one in state.rows if one is not request]
        state.computed = [blocks.request if one is request else one for one in computed]
    return blocks


def insert_chunks(state: State, requests: list[Request], now: int, *, seen: int) -> None:
    """Insert the chunks of prompts that continue, after all that ends with a step."""
    if state.copies is not None:
        state.copies.end_step(now, seen)
    for request in requests:
        state.memory.insert(request)
    if state.copies is not None:
        state.copies.keep()


def insert_computed(state: State) -> None:
    """Insert the prompts that are through into the prefix tree, as their results are known."""
    for request in state.computed:
        state.memory.insert(request)
    state.computed.clear()


def _end_late(state: State, step: Step | None) -> None:
    """End the requests whose last token counts now; the step that is formed discards what it has of them."""
    for request in [one for one in state.counted if one.done and one.running]:
        request.place = "gone"
        state.running.remove(request)
        state.ended.append(request)
        state.deferred.append(request)
        state.ended_late.append(request)
        if request.generated < request.spec.output_tokens:
            request.cancelled, request.cause = request.token_times[-1], "cancelled"
        if step is not None and request in step.tokens:
            step.discarded.append(request)
            step.verified[request] = (-1, 0)


def end_decision(state: State, step: Step | None = None) -> bool:
    """Free the blocks that the decision still counted as held, and make known what it did not know.

    With a tier, blocks stay until the step that was formed has ended, if it computes tokens of a request
    which has ended. Return whether there was any of it.
    """
    written = step.discarded if state.tier is not None and step is not None else []
    learnt = bool(state.unseen)
    state.counted += [one for one in state.results if one in state.running and count_pending(one)]
    _end_late(state, step)
    for request in state.unseen:
        request.hidden, request.given_up = 0, 0
        if request.running:
            state.memory.register_known(request)
    state.unseen.clear()
    inserted = bool(state.computed)
    insert_computed(state)
    for request in state.ended:
        _leave(state, request)
    state.ended.clear()
    deferred, state.deferred = state.deferred, []
    for one in deferred:
        if isinstance(one, Request) and one in written:
            state.deferred.append(one)
        elif isinstance(one, Request) and state.tier is not None:
            state.tier.free(one)
        elif isinstance(one, Request):
            state.memory.release(one)
        else:
            state.memory.release_detached(*one)
    if state.tier is not None:
        state.tier.learn()
    return bool(deferred) or inserted or (learnt and state.settings.speculation.drafts)


def preempt_ended(state: State, request: Request, step: Step) -> None:
    """Free the blocks of a request that has ended: it is the victim of the step that is formed.

    vLLM counts the preemption with the last output of the request; a cancelled one has none.
    """
    step.drop(request, refund=state.settings.refund)
    step.preempted.append(request)
    request.preemptions += request.finished
    state.ended.remove(request)
    state.deferred.remove(request)
    state.memory.release(request)
    if state.tier is not None:
        request.computed = 0
    _leave(state, request)


def forget_outcome(state: State, request: Request) -> None:
    """Drop what the decision does not know of a request that is preempted, or leaves the instance."""
    request.hidden, request.given_up, request.pending = 0, 0, None
    for hidden in (state.unseen, state.computed):
        if request in hidden:
            hidden.remove(request)


def _leave(state: State, request: Request) -> None:
    forget_outcome(state, request)
    request.place = "gone"
    if request in state.running:
        state.running.remove(request)
    leave_adapter(state, request)


def catch_up(state: State) -> bool:
    """Release all arrivals and deferred blocks, if no step was decided ahead; return whether any was.

    Requests that were handed over and that the step did not see are seen from now on.
    """
    waiting = state.incoming.offered or state.incoming.received or state.swapped_to_accept
    handed_over = state.started is not None and bool(waiting)
    # With a tier, a step that was in flight hid what it reported, and the blocks that it wrote to.
    flew = state.tier is not None and bool(state.in_flight)
    state.started, state.in_flight = None, []
    arrived = receive_all(state)
    if state.tier is not None:
        state.tier.land()
    return end_decision(state) or arrived or handed_over or flew

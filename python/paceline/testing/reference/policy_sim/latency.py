"""The parts of a finished request's latency."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.testing.reference.policy_sim.request import ANSWERING, Request


@dataclass(frozen=True, slots=True)
class Split:
    """The latency of a request in parts that add up to it, in ticks.

    Attributes
    ----------
    blocked : int
        From its arrival until it was first scheduled.
    preempted_reasoning, preempted_answering : int
        Out of the batch after having been in it, by the phase in which that began; without the
        time between the last reasoning token and the step of the first answer token.
    blocking : int
        That time, without transfers.
    transfer : int
        Between leaving an instance and arriving at the next, or until the offer to that is withdrawn.
    transfer_answering : int
        The part of that between the last reasoning token and the step of the first answer token.
    executed : int
        The rest.
    answer_started : int or None
        Start of the step that computed the first token of the answer.
    """

    blocked: int
    preempted_reasoning: int
    preempted_answering: int
    blocking: int
    transfer: int
    transfer_answering: int
    executed: int
    answer_started: int | None

    @property
    def preempted(self) -> int:
        """Out of the batch in either phase."""
        return self.preempted_reasoning + self.preempted_answering


def split(request: Request) -> Split:
    """Split the latency of a finished request."""
    assert request.scheduled is not None
    answer = request.spec.reasoning_tokens
    answer_started = request.token_starts[answer] if answer < len(request.token_starts) else None
    change = (-1, -1)  # the time between the phases, if there is one
    if request.changes_phase:
        assert request.reasoning_end is not None
        assert answer_started is not None
        change = (request.reasoning_end, answer_started)
    out = [0, 0]
    for spell in request.spells:
        assert spell.end is not None
        if not (change[0] <= spell.start and spell.end <= change[1]):
            out[spell.phase == ANSWERING] += spell.end - spell.start
    transfer = sum(move.landed - move.left for move in request.transfers)
    within = sum(
        move.landed - move.left
        for move in request.transfers
        if change[0] <= move.left and move.landed <= change[1]
    )
    blocked = request.scheduled - request.spec.arrival
    blocking = change[1] - change[0] - within
    total = request.token_times[-1] - request.spec.arrival
    executed = total - blocked - sum(out) - blocking - transfer
    return Split(blocked, out[0], out[1], blocking, transfer, within, executed, answer_started)

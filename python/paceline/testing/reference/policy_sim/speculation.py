"""Speculative decoding: how many drafts a request has, and how many of them are accepted."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from paceline.testing.reference.policy_sim.request import Request

_WORD = 2**64


class Speculation:
    """The rules of an instance, its fields as ``rust/core/src/config/speculation.rs`` names them.

    Parameters
    ----------
    config : dict or None
        None: a step yields one token of a request.
    max_model_len : int or None
        The longest sequence.

    Examples
    --------
    >>> rules = {"tokens": 3, "by_batch": [[1, 3], [8, 1]], "proposals": None, "lookahead": 3, "pads": False,
    ...          "acceptance": {"kind": "periodic", "yields": [2, 3]},
    ...          "input_slots": 0, "hash_lookahead": 0, "drops_last_block": False}
    >>> speculation = Speculation(rules, max_model_len=100)
    >>> [speculation.accepted(0, outputs) for outputs in (1, 3, 6, 8)]
    [1, 2, 1, 2]
    >>> speculation.room(96, decodes=True), speculation.room(99, decodes=True)
    (99, 100)
    """

    def __init__(self, config: dict[str, Any] | None, max_model_len: int | None) -> None:
        self.drafts = config is not None
        rules: dict[str, Any] = config or {}
        self.most: int = rules.get("tokens", 0)
        # A decode has slots for two steps, and no prompt has any.
        self.two_steps: bool = rules.get("slots", "lookahead") == "two_steps"
        self.lookahead: int = self.most + 1 if self.two_steps else rules.get("lookahead", 0)
        self.input_slots: int = rules.get("input_slots", 0)
        self.hash_lookahead: int = rules.get("hash_lookahead", 0)
        self.drops_last_block: bool = rules.get("drops_last_block", False)
        self.padding: int = self.most if rules.get("pads", False) else 0
        self._rules = rules
        self.most_slots = None if self.two_steps else max_model_len

    @property
    def slots(self) -> int:
        """Slots past its last token that a request may need."""
        return self.most + self.lookahead

    @property
    def step_slots(self) -> int:
        """Slots that a decode may take in a step, with those for the next drafts; 0 if none is drafted."""
        return 1 + self.slots if self.drafts else 0

    def room(self, tokens: int, *, decodes: bool) -> int:
        """Return the slots of a request of so many tokens after a step, with those for the next drafts.

        A step of its prompt may have fewer than one of a decode.
        """
        slots = tokens + (self.lookahead if decodes or not self.two_steps else 0)
        return slots if self.most_slots is None else max(min(slots, self.most_slots), tokens)

    def fits(self, computed: int, tokens: int) -> int:
        """Return a step's tokens of a request, cut so that the sequence has room for one token more."""
        return tokens if self.most_slots is None else min(tokens, self.most_slots - computed - 1)

    def written(self, accepted: int, kept: int) -> int:
        """Return the tokens after a step's first that have KV, of which it yields ``kept``.

        The last one has, where drafts past it are accepted and decodes have slots for two steps.
        """
        return min(accepted, kept - 1 + self.two_steps)

    def proposals(self, request: Request, requests: int) -> int:
        """Return the drafts proposed for a request after a step of so many requests."""
        most = self.most
        for least, drafts in self._rules["by_batch"]:
            if requests >= least:
                most = drafts
        listed = self._rules["proposals"]
        return most if listed is None else min(_listed(listed, request.index, request.generated), most)

    def accepted(self, row: int, outputs: int) -> int:
        """Return the drafts that are accepted after ``outputs`` tokens, however many there are."""
        rule = self._rules["acceptance"]
        if rule["kind"] == "listed":
            return _listed(rule, row, outputs)
        if rule["kind"] == "by_row":
            return _by_row(rule, row, outputs)
        if rule["kind"] == "drawn":
            return _drawn(rule["seed"], rule["chances"], row, outputs)
        # Steps yield the numbers in turn, from the first token after the prompt's on.
        after, step = 1, 0
        while after < outputs:
            after += rule["yields"][step % len(rule["yields"])]
            step += 1
        return int(rule["yields"][step % len(rule["yields"])]) - 1


def _by_row(rule: dict[str, Any], row: int, outputs: int) -> int:
    """Return the accepted drafts of a row with its own mean, counting its steps from the first one."""
    mean = Fraction(rule["numerators"][row % len(rule["numerators"])], rule["denominator"])
    step = 0
    while 1 + math.floor(step * mean) < outputs:
        step += 1
    return math.floor((step + 1) * mean) - math.floor(step * mean) - 1


def _listed(listed: dict[str, Any], row: int, outputs: int) -> int:
    values: list[int] = listed["values"]
    stride: int = listed["stride"]
    return values[(stride * row + outputs) % len(values)]


def _drawn(seed: int, chances: list[int], row: int, outputs: int) -> int:
    accepted = 0
    for position, chance in enumerate(chances, start=1):
        state = _mix(seed)
        for number in (row, outputs, position):
            state = _mix(state ^ number)
        if state >> 32 >= chance:
            break
        accepted += 1
    return accepted


def _mix(state: int) -> int:
    """Return the number that splitmix64 makes of a state."""
    state = (state + 0x9E3779B97F4A7C15) % _WORD
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % _WORD
    return state ^ (state >> 31)

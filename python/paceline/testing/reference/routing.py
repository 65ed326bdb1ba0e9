"""The instance that an arrival is routed to."""

from __future__ import annotations

from typing import Literal

from paceline.testing.reference.instance import Instance
from paceline.testing.reference.request import Request

Routing = Literal["round_robin", "fewest_requests", "fewest_tokens"]


class Router:
    """Routes each request to one of the instances that could finish it.

    Round robin: the next such instance after the one picked last. Fewest requests: unfinished requests
    of the instance. Fewest tokens: prompt and generated tokens of those. Ties go to the lowest index.
    """

    def __init__(self, rule: Routing, instances: list[Instance]) -> None:
        self._rule = rule
        self._instances = instances
        self._next = 0

    def pick(self, request: Request) -> int | str:
        """Return the index of an instance, or why no instance could ever finish the request."""
        refusals = [instance.config.refusal(request) for instance in self._instances]
        able = [index for index, refusal in enumerate(refusals) if refusal is None]
        if not able:
            # If some instances refuse its length and others its blocks, the latter is the reason.
            return next((r for r in refusals if r and r != "max_model_len"), "max_model_len")
        picked = min(able, key=self._key)
        self._next = (picked + 1) % len(self._instances)
        return picked

    def _key(self, index: int) -> int:
        outstanding = self._instances[index].outstanding
        if self._rule == "fewest_requests":
            return len(outstanding)
        if self._rule == "fewest_tokens":
            return sum(sequence.tokens for sequence in outstanding)
        return (index - self._next) % len(self._instances)

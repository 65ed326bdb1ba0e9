"""The time of a step: integer coefficients, so that the clock is exact."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.testing.reference.request import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class AffineCost:
    """``step + token·n + kv_token·kv + swap_block·s``, in the trace's unit of time.

    n is the number of tokens scheduled, kv the sum over the scheduled sequences of the tokens
    computed once the step is done, and s the number of blocks swapped, in either direction.
    """

    step: int
    token: int = 0
    kv_token: int = 0
    swap_block: int = 0

    def duration(self, entries: list[Entry], swapped_blocks: int = 0) -> int:
        """Return how long a step of these entries takes."""
        tokens = sum(entry.tokens for entry in entries)
        kv_tokens = sum(entry.before + entry.tokens for entry in entries)
        return self.step + self.token * tokens + self.kv_token * kv_tokens + self.swap_block * swapped_blocks

    def layered(self, decode_tokens: int, prefill_tokens: int, layers: int, of_layers: int) -> int:
        """Return the time of a step with prefills that run in ``layers`` of ``of_layers`` layers.

        ``step + token·d + floor(token·p·layers / of_layers)``, the rule of the layered-prefill logs.
        """
        return self.step + self.token * decode_tokens + self.token * prefill_tokens * layers // of_layers

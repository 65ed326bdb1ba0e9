"""The time of a step: linear in its tokens, prefills by the share of layers that they run in."""

from __future__ import annotations

from typing import Any

from paceline.testing.reference.policy_sim.step import Step


class Cost:
    """``step + token·n + kv_token·kv``, n the tokens computed and kv those of the contexts after the step.

    If prefills run in some of the layers, their part is that share of it, rounded down.

    Parameters
    ----------
    config : dict
        An affine cost, as the engine's configuration spells it.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._step: int = config["step"]
        self._token: int = config["token"]
        self._kv_token: int = config["kv_token"]

    def step(self, step: Step) -> int:
        """Return how long a step takes."""
        decodes = sum(self._of(step.tokens[one], step.after(one)) for one in step.decodes)
        # A padding is verified in all layers.
        padding = {one: step.drafts.get(one, 0) for one in step.prefills}
        decodes += self._of(sum(padding.values()), 0)
        prefills = sum(self._of(step.tokens[one] - padding[one], step.after(one)) for one in step.prefills)
        layers, depth = step.layers
        return self._step + decodes + prefills * layers // depth

    def prefill(self, tokens: int, before: int) -> int:
        """Return how long a step takes that computes ``tokens`` of a prompt after ``before`` others."""
        return self._step + self._of(tokens, before + tokens)

    def _of(self, tokens: int, kv_tokens: int) -> int:
        return self._token * tokens + self._kv_token * kv_tokens

"""The time of a step: linear in its tokens, prefills by the share of layers that they run in."""

from __future__ import annotations

from typing import Any

from paceline.testing.reference.policy_sim.step import Step


class Cost:
    """``step + token·n + kv_token·kv``, n the tokens computed and kv those of the contexts after the step.

    If prefills run in some of the layers, what they add is that share of it, rounded down. With CUDA graphs
    ``n`` is the size of the smallest that holds the tokens; of a step that only decodes, all its requests
    with as many drafts, the smallest that was captured for such steps, if one is large enough. A step that
    none holds takes ``eager`` at least. With a floor, a step with prefills takes so long at least.

    Parameters
    ----------
    config : dict
        An affine cost, as the engine's configuration spells it, with a floor and graphs or without.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._floor: int = config.get("prompts", 0)
        config = config["cost"] if config["kind"] == "floor" else config
        self._captured: dict[str, Any] | None = config.get("captured")
        config = config["cost"] if self._captured else config
        self._step: int = config["step"]
        self._token: int = config["token"]
        self._kv_token: int = config["kv_token"]

    def step(self, step: Step) -> int:
        """Return how long a step takes."""
        # A batch that is preempted as the step is formed leaves decodes, which run in all layers alike.
        layers, depth = step.layers if step.prefills else (1, 1)
        # A padding with drafts is verified in all layers.
        alone = sum(step.tokens[one] for one in step.decodes) + sum(
            step.drafts.get(one, 0) for one in step.prefills
        )
        least = self._least(sum(step.tokens.values()), self._uniform(step))
        tokens = self._padded(sum(step.tokens.values()), self._uniform(step))
        alone = self._padded(alone, []) if layers < depth else alone
        decodes = self._of(alone, sum(map(step.after, step.decodes)))
        prefills = self._of(tokens - alone, sum(map(step.after, step.prefills)))
        ticks = max(self._step + decodes + prefills * layers // depth, least)
        return max(ticks, self._floor) if step.prefills else ticks

    def prefill(self, tokens: int, before: int) -> int:
        """Return how long a step takes that computes ``tokens`` of a prompt after ``before`` others."""
        ticks = self._step + self._of(self._padded(tokens, []), before + tokens)
        return max(ticks, self._floor, self._least(tokens, []))

    def _uniform(self, step: Step) -> list[int]:
        """Return the sizes of graphs of decodes like those of a step; none if it is mixed."""
        drafts = sum(step.drafts.get(one, 0) for one in step.decodes)
        if self._captured is None or step.prefills:
            return []
        sizes = (
            one["sizes"] for one in self._captured["uniform"] if one["drafts"] * len(step.decodes) == drafts
        )
        return next(sizes, [])

    def _padded(self, tokens: int, uniform: list[int]) -> int:
        """Return the tokens of the graph that a step replays; its own if there is none so large."""
        return min(self._fits(tokens, uniform), default=tokens)

    def _least(self, tokens: int, uniform: list[int]) -> int:
        """Return the least time of a step, which one has that no graph holds."""
        if self._captured is None or self._fits(tokens, uniform):
            return 0
        return int(self._captured.get("eager", 0))

    def _fits(self, tokens: int, uniform: list[int]) -> list[int]:
        """Return the sizes of the graphs that hold a step; without tokens it needs none."""
        if self._captured is None or tokens == 0:
            return [tokens]
        fits = [size for size in uniform if size >= tokens]
        return fits or [size for size in self._captured["sizes"] if size >= tokens]

    def _of(self, tokens: int, kv_tokens: int) -> int:
        return self._token * tokens + self._kv_token * kv_tokens

"""Requests that an instance, as the engine's configuration spells it, could never finish."""

from __future__ import annotations

from typing import Any

from paceline.testing.reference.policy_sim.settings import Settings
from paceline.testing.reference.refusal import Reason, refuse
from paceline.testing.reference.request import Request


def refusal(prompt_tokens: int, output_tokens: int, config: dict[str, Any]) -> Reason | None:
    """Return why an instance refuses a request of these lengths, or None if it does not.

    Parameters
    ----------
    prompt_tokens, output_tokens
        Lengths in tokens.
    config
        The instance, as the engine's configuration spells it.
    """
    settings = Settings.of(config)
    blocks, block_tokens, most = config["blocks"], config["block_tokens"], config["max_model_len"]
    tree = (config["scheduler"]["prefix_cache"] or {}).get("tree")
    # The KV of the last token is never written: of one token, as a monitor asks, there are no states.
    tokens = prompt_tokens + output_tokens
    states = settings.state_blocks if tokens > 1 else 0
    # An admission leaves a block's tokens beside those of the whole sequence.
    reserves = settings.output_reserve is not None
    if reserves and tokens >= (blocks - 1) * block_tokens and (most is None or tokens <= most):
        return "blocks"
    return refuse(
        Request(0, prompt_tokens, output_tokens),
        max_model_len=most,
        block_size=block_tokens,
        blocks=blocks - settings.reserve - states,
        slots=settings.slots,
        load_slots=settings.past_context(tiered=bool(config.get("tier")) and not tree),
        largest_prefill=None if settings.cuts_prompts else settings.max_num_batched_tokens,
    )

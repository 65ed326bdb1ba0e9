"""What the KV router of NVIDIA Dynamo keeps track of."""

from __future__ import annotations

from dataclasses import dataclass

from paceline._arguments import typed_fields
from paceline.errors import PolicyError
from paceline.policy.books import Learns, TrackedOutputs

__all__ = ["DynamoTracking"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(PolicyError)
class DynamoTracking:
    """What Dynamo's router keeps of the requests that it routed; the defaults are those of its ``config.rs``.

    Parameters
    ----------
    use_kv_events
        Whether the index learns from events of the engines, at the first token; False: from the router's
        decisions.
    output_events
        Whether events also tell of the blocks that outputs filled. Needs a trace with sessions.
    active_blocks
        Whether the blocks of unfinished requests' prompts count.
    output_blocks
        Whether the blocks that their outputs fill count.
    expected_outputs
        Whether these fade as an output nears its expected end, here its real one, so that the policy uses an
        oracle.
    assume_kv_reuse
        Whether a block that several requests of an instance have counts once.
    prefill_tokens
        Whether prefill counts.

    Examples
    --------
    >>> DynamoTracking(use_kv_events=False).learns
    'routed'

    Notes
    -----
    Source: ai-dynamo/dynamo at 2093662a, ``lib/kv-router/src/scheduling/config.rs``: ``use_kv_events``,
    ``router_track_active_blocks``, ``router_track_output_blocks``, ``router_assume_kv_reuse``,
    ``router_track_prefill_tokens``.
    """

    use_kv_events: bool = True
    output_events: bool = True
    active_blocks: bool = True
    output_blocks: bool = False
    expected_outputs: bool = False
    assume_kv_reuse: bool = True
    prefill_tokens: bool = True

    @property
    def learns(self) -> Learns:
        """When the index learns that an instance has a prefix."""
        if not self.use_kv_events:
            return "routed"
        return "finished" if self.output_events else "prefilled"

    @property
    def outputs(self) -> TrackedOutputs:
        """How the blocks of outputs count."""
        if not self.output_blocks:
            return "none"
        return "decaying" if self.expected_outputs else "whole"

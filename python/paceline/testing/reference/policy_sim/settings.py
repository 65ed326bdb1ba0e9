"""The settings of an instance's scheduler, from the engine's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline.testing.reference.policy_sim.speculation import Speculation

_DEFAULTS = {
    "admission": {"kind": "wait"},
    "varying": {},
    "joining": {},
    "receive_interval": 1,
    "requeue_last": False,
    "drop_unseen": False,
    "unseen_ends": False,
}
_DEFAULTS |= {"output_reserve": None, "whole_block_chunks": False, "prompt_batch": None}


@dataclass(frozen=True, slots=True)
class Settings:
    """The scheduler of one instance, its fields as ``rust/core/src/config/`` names them."""

    block_tokens: int
    state_blocks: int
    state_bytes: int
    max_num_batched_tokens: int
    max_num_seqs: int
    long_prefill_token_threshold: int
    threshold_when_alone: bool
    whole_block_chunks: bool
    prompt_batch: dict[str, int] | None
    stages: list[dict[str, Any]]
    exclusive_prefill: bool
    order: dict[str, Any]
    admission: dict[str, Any]
    victim: str
    allocation: str
    watermark_blocks: int
    watermark_when_idle: bool
    spare_block: bool
    decodes_first: bool
    refund: bool
    stop_at_own_preemption: bool
    preemption: dict[str, Any]
    requeue_late: bool
    requeue_last: bool
    output_reserve: dict[str, int] | None
    prefix_cache: dict[str, Any] | None
    schedule_ahead: bool
    drop_unseen: bool
    unseen_ends: bool
    receive_interval: int
    varying: dict[str, Any]
    joining: dict[str, Any]
    speculation: Speculation

    @classmethod
    def of(cls, instance: dict[str, Any]) -> Settings:
        """Read an instance's configuration."""
        return cls(
            block_tokens=instance["block_tokens"],
            state_blocks=instance.get("state_blocks", 0),
            state_bytes=instance.get("state_bytes", 0),
            speculation=Speculation(instance.get("speculation"), instance["max_model_len"]),
            **_DEFAULTS | instance["scheduler"],
        )

    @property
    def holds_arrivals(self) -> bool:
        """Whether arrivals wait apart from the queue until a step receives them."""
        return self.schedule_ahead or self.receive_interval > 1

    @property
    def ranked(self) -> bool:
        """Whether one order ranks running and waiting requests."""
        return bool(self.order["kind"] == "ranked")

    @property
    def swap(self) -> dict[str, Any] | None:
        """How KV is copied to the CPU's memory; None: it is recomputed."""
        return self.preemption if self.preemption["kind"] == "swap" else None

    @property
    def mixes(self) -> bool:
        """Whether decodes leave a step to its prefills where they lack blocks."""
        return any(stage.get("sits_out", False) for stage in self.stages)

    @property
    def cuts_prompts(self) -> bool:
        """Whether prompts are cut into chunks."""
        return all(stage.get("chunked", True) for stage in self.stages)

    @property
    def slots(self) -> int:
        """Slots past its last token that a request may need.

        A step that is decided ahead counts the drafts of the step before it, too.
        """
        return self.speculation.slots + (self.speculation.most if self.schedule_ahead else 0)

    def past_context(self, *, tiered: bool) -> int:
        """Return the slots past its last token that a request needs even past the longest sequence."""
        return max(
            self.speculation.step_slots if tiered else 0, self.slots if self.speculation.two_steps else 0
        )

    @property
    def reserve(self) -> int:
        """Blocks that even the only request on the instance must leave free."""
        selecting: int = sum(stage.get("reserve_blocks", 0) for stage in self.stages)
        return int(self.spare_block) + (self.watermark_blocks if self.watermark_when_idle else 0) + selecting

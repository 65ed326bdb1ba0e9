"""Prompts of data-parallel ranks that wait until all ranks have one."""

from __future__ import annotations

from dataclasses import dataclass

from paceline._arguments import typed_fields
from paceline._check import said
from paceline.errors import ConfigError

__all__ = ["Balance"]

_MOST = 2**32 - 2


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Balance:
    """Hold prompts of instances in lockstep back until each instance has one that fits, or for some steps.

    Without it a step in which one rank computes a prompt makes all others wait for it. A step in which not
    every instance has a prompt is counted, and prompts wait; the last of ``timeout_steps`` such steps in a
    row lets them pass, and they are counted anew. They pass at once if an instance has requests and runs
    none. An instance without requests takes part with one token, and waits with the others.

    Parameters
    ----------
    timeout_steps
        Steps in which not every instance has a prompt, of which the last lets prompts pass.
    gather_steps
        Steps for which prompts wait on once every instance has one and runs requests.

    Raises
    ------
    ConfigError
        If a number is out of its range.

    Examples
    --------
    >>> Balance(timeout_steps=60).to_wire()
    {'timeout_steps': 60, 'gather_steps': 0}

    Notes
    -----
    Source: TensorRT-LLM 1.2, ``_balance_adp_requests`` and ``_pad_attention_dp_dummy_request`` of
    ``tensorrt_llm/_torch/pyexecutor/py_executor.py``: ``attention_dp_config`` has ``enable_balance``,
    ``timeout_iters`` and ``batching_wait_iters``.
    """

    timeout_steps: int
    gather_steps: int = 0

    def __post_init__(self) -> None:
        for name, least in (("timeout_steps", 1), ("gather_steps", 0)):
            if not least <= getattr(self, name) <= _MOST:
                raise ConfigError(
                    f"{name} of a Balance must be {least} to {_MOST}, was {said(getattr(self, name))}"
                )

    def to_wire(self) -> dict[str, int]:
        """Return the rule as the engine reads it."""
        return {"timeout_steps": self.timeout_steps, "gather_steps": self.gather_steps}

"""Several batches in the stages of an instance at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paceline._arguments import typed_fields
from paceline.errors import PolicyError
from paceline.model import stages
from paceline.model.dtypes import WEIGHT_BYTES
from paceline.policy.checks import whole
from paceline.policy.composition import Composition
from paceline.policy.stages import Layered, Recompute, Select
from paceline.policy.value import Value

if TYPE_CHECKING:
    from paceline.deployment import Instance
    from paceline.model import Stage

__all__ = ["Pipelined"]

_MOST_BATCHES = 1024


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Pipelined(Value):
    """Have several batches in the stages of an instance at a time.

    A batch passes the stages one after another, and a stage has one batch at a time. A
    request is in one batch at a time, but for the chunks of its prompt, which follow
    each other. A stage takes its share of a step: that of the weights that it reads.
    On an instance with ``pipeline_parallel=1`` this has no effect.

    Parameters
    ----------
    batches
        The most batches that are in the stages; None: as many as there are stages.
    empty_batches
        Whether a batch without requests takes a place, if another batch is under way
        and no request can be scheduled. So does vLLM's queue of batches: requests that
        arrive then wait until the oldest batch has ended. If not, a batch is formed as
        soon as there are requests for it.

    Raises
    ------
    PolicyError
        If `batches` is not at least 1.

    Examples
    --------
    >>> from paceline import Instance
    >>> from paceline.policy import Scheduler
    >>> llama = Instance(model="llama-3.1-8b", gpu="h100-sxm", pipeline_parallel=4)
    >>> Pipelined().on(llama, Scheduler())["batches"]
    4

    Notes
    -----
    Source: vLLM 0.33.0, ``vllm/v1/engine/core.py`` (``step_with_batch_queue``) and
    ``vllm/config/vllm.py`` (``max_concurrent_batches``), with its V1 model runner.
    The decisions of its own scheduler in ``tests/conformance/logs/vllm-pipeline`` are
    reproduced.
    """

    batches: int | None = None
    empty_batches: bool = True

    def __post_init__(self) -> None:
        if self.batches is not None:
            whole("batches of Pipelined", self.batches)
            if self.batches > _MOST_BATCHES:
                raise PolicyError(f"batches of Pipelined must be at most {_MOST_BATCHES}, was {self.batches}")

    def on(self, instance: Instance, scheduler: Composition) -> dict[str, Any] | None:
        """Return the stages of an instance as the engine reads them; None if it has one.

        Raises
        ------
        PolicyError
            If something of the scheduler is not modelled beside several batches.
        """
        count = instance.pipeline_parallel
        if count == 1:
            return None
        rule = _breach(instance, scheduler)
        if rule is not None:
            raise PolicyError(
                f"pipelined of a Scheduler must be None (False in policies.vllm), so that a batch passes all "
                f"{count} stages of an instance before the next one is formed, {rule}, was {self!r}"
            )
        model = instance.resolved_model
        shares = [1] * count if model is None else [_bytes_read(one) for one in stages(model, count)]
        return {"stages": shares, "batches": self.batches or count, "empty_batches": self.empty_batches}


def _breach(instance: Instance, scheduler: Composition) -> str | None:
    """Return what is not modelled beside several batches, of what a scheduler or its instance has."""
    cache = scheduler.prefix_cache
    reserves = scheduler.output_reserve is not None
    broken = {
        "where steps are decided ahead (schedule_ahead, async_scheduling)": scheduler.schedule_ahead,
        "where receive_interval is above 1": scheduler.receive_interval > 1,
        "where the order ranks requests": scheduler.ranks,
        "beside Layered() or Select()": any(isinstance(one, Layered | Select) for one in scheduler.stages),
        "beside swapping": not isinstance(scheduler.preemption, Recompute),
        "beside an output_reserve or decodes that sit out": reserves
        or any(getattr(one, "sits_out", False) for one in scheduler.stages),
        "beside decodes_first": scheduler.decodes_first,
        "beside tiers of the PrefixCache": cache is not None and bool(cache.tiers),
        "where tokens are drafted": instance.speculation is not None,
    }
    return next((rule for rule, breaks in broken.items() if breaks), None)


def _bytes_read(stage: Stage) -> int:
    """Return the bytes of weights that a step reads in a stage: its layers, and the LM head in the last."""
    part = stage.part
    table = round(part.vocab_size * part.hidden_size * WEIGHT_BYTES[part.dtype])
    layers = part.weight_bytes() - table * (1 if part.tied_embeddings else 2)
    return layers + table * stage.last

"""Several batches in the stages of an instance at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paceline._arguments import typed_fields
from paceline.errors import PolicyError
from paceline.model import stages
from paceline.model.dtypes import WEIGHT_BYTES
from paceline.policy.checks import whole
from paceline.policy.value import Value

if TYPE_CHECKING:
    from paceline.deployment import Instance
    from paceline.model import Stage

__all__ = ["Pipelined"]


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
    >>> llama = Instance(model="llama-3.1-8b", gpu="h100-sxm", pipeline_parallel=4)
    >>> Pipelined().on(llama)["batches"]
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

    def on(self, instance: Instance) -> dict[str, Any] | None:
        """Return the stages of an instance as the engine reads them; None if it has one.

        The engine refuses what is not modelled beside several batches.
        """
        count = instance.pipeline_parallel
        if count == 1:
            return None
        model = instance.resolved_model
        shares = [1] * count if model is None else [_bytes_read(one) for one in stages(model, count)]
        return {"stages": shares, "batches": self.batches or count, "empty_batches": self.empty_batches}


def _bytes_read(stage: Stage) -> int:
    """Return the bytes of weights that a step reads in a stage: its layers, and the LM head in the last."""
    part = stage.part
    table = round(part.vocab_size * part.hidden_size * WEIGHT_BYTES[part.dtype])
    layers = part.weight_bytes() - table * (1 if part.tied_embeddings else 2)
    return layers + table * stage.last

"""The stages of a pipeline: which of a model's layers and tables each has."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError
from paceline.model.decoder import Model
from paceline.model.dtypes import WEIGHT_BYTES

__all__ = ["Stage", "stages"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Stage:
    """One stage of a pipeline.

    Parameters
    ----------
    part
        The whole model's shape with this stage's layers alone.
    first, last
        Whether it has the embedding, and whether it has the LM head.
    """

    part: Model
    first: bool
    last: bool

    @typed()
    def weight_bytes(self, tensor_parallel: int = 1, *, expert_ranks: int | None = None) -> int:
        """Return the bytes of weights on one of the stage's ranks: see :meth:`Model.weight_bytes`."""
        part = self.part
        has_experts = part.experts is not None
        whole = part.weight_bytes(tensor_parallel, expert_ranks=expert_ranks if has_experts else None)
        table = part.vocab_size * part.hidden_size / tensor_parallel
        absent = 0.0
        if part.tied_embeddings:
            absent += 0.0 if self.first or self.last else table
        else:
            absent += (0.0 if self.first else table) + (0.0 if self.last else table)
        if not self.last:
            absent += part.hidden_size * (2 if part.norm_bias else 1)
            absent += part.vocab_size / tensor_parallel if part.lm_head_bias else 0
        return whole - round(absent * WEIGHT_BYTES[part.dtype])


@typed()
def stages(model: Model, pipeline_parallel: int) -> tuple[Stage, ...]:
    """Cut a model into stages as vLLM does (``distributed/utils.py::get_pp_indices``).

    Layers that cannot be shared out evenly go one each to the stages before the last, from behind. The first
    layers are the dense ones of a mixture. Layers with a sliding window are taken to be spread evenly; where
    that is no whole number, a stage counts as having fewer of them.

    Parameters
    ----------
    model
        What is cut.
    pipeline_parallel
        Stages.

    Raises
    ------
    ConfigError
        If there are more stages than layers.

    Examples
    --------
    >>> from paceline.model import Model
    >>> [stage.part.layers for stage in stages(Model.load("deepseek-v3"), 4)]
    [15, 15, 16, 15]
    """
    _check.count("pipeline_parallel", pipeline_parallel)
    if pipeline_parallel > model.layers:
        raise ConfigError(
            f"pipeline_parallel must be at most the {model.layers} layers of {model.name!r}, "
            f"was {pipeline_parallel}"
        )
    if pipeline_parallel > 1 and model.attention_layers < model.layers:
        raise ConfigError(
            f"pipeline_parallel of {model.name!r} must be 1, was {pipeline_parallel}: stages of a hybrid "
            f"model have different layers, which is not modelled"
        )
    each, more = divmod(model.layers, pipeline_parallel)
    sizes = [each] * pipeline_parallel
    for index in range(2, more + 2):
        sizes[-index] += 1
    cut, begun = [], 0
    for index, size in enumerate(sizes):
        cut.append(
            Stage(part=_part(model, begun, size), first=index == 0, last=index == pipeline_parallel - 1)
        )
        begun += size
    return tuple(cut)


def _part(model: Model, begun: int, size: int) -> Model:
    """Return the model with ``size`` of its layers, from layer ``begun`` on."""
    experts, window = model.experts, model.sliding_window
    if experts is not None:
        dense = min(max(experts.dense_layers - begun, 0), size)
        experts = None if dense == size else replace(experts, dense_layers=dense)
    sliding = size * model.sliding_layers // model.layers
    if not sliding:
        window = None
    return replace(model, layers=size, experts=experts, sliding_window=window, sliding_layers=sliding)

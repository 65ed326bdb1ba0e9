"""The blocks of a request with states of constant size: vLLM's rule for hybrid models."""

from __future__ import annotations

from dataclasses import dataclass

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.model import Model

__all__ = ["Pages", "pages_of"]

_ALIGNMENT = 16  # tokens of a block that attention kernels take
_LITTLE_MORE = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Pages:
    """The blocks of an instance, all of one size.

    Parameters
    ----------
    block_tokens
        Tokens in a block.
    block_bytes
        Bytes of a block on one GPU.
    state_blocks
        Blocks that a request holds beside those of its tokens; 0 without recurrent layers.
    """

    block_tokens: int
    block_bytes: int
    state_blocks: int


@typed()
def pages_of(
    model: Model, *, tensor_parallel: int = 1, block_tokens: int = 16, kv_dtype: str = "auto"
) -> Pages:
    """Return the blocks that vLLM divides the memory of a model's cache and states into.

    With attention alone, a block has the keys and values of ``block_tokens`` tokens in all layers but those
    with a window. In a hybrid model (``platforms/interface.py::_align_hybrid_block_size`` and
    ``v1/core/kv_cache_utils.py::_get_kv_cache_groups_uniform_page_size`` of vLLM 0.33):

    - a page is a layer's part of a block, and all pages have the same size: the tokens of a block are raised
      to the next multiple of 16 whose keys and values take as much as a state;
    - layers are in groups of as many as have attention, of one kind each. If those with a state are less than
      half as many again, they are one group, as large as they are many;
    - a request holds the blocks of its tokens in the group with attention, and one block in each other group,
      all from one pool.

    Parameters
    ----------
    model
        The model.
    tensor_parallel
        GPUs that it is split over.
    block_tokens
        The least tokens in a block.
    kv_dtype
        As in vLLM; ``"auto"`` is the model's own. States keep their own type.

    Examples
    --------
    >>> pages_of(Model.load("qwen3-next-80b-a3b"))      # vLLM logs 544 tokens
    Pages(block_tokens=544, block_bytes=13369344, state_blocks=3)
    """
    _check.count("block_tokens", block_tokens, most=2**32)
    layer = model.kv_layer_bytes(tensor_parallel, kv_dtype)
    if model.recurrent is None:
        token = model.kv_bytes_per_token(tensor_parallel, kv_dtype)
        return Pages(block_tokens=block_tokens, block_bytes=block_tokens * token, state_blocks=0)
    state = model.state_layer_bytes(tensor_parallel)
    aligned = _ALIGNMENT * -(-state // (_ALIGNMENT * layer))
    tokens = max(block_tokens, aligned)
    attention, recurrent = model.attention_layers, model.recurrent.layers
    group = recurrent if recurrent < _LITTLE_MORE * attention else attention
    return Pages(block_tokens=tokens, block_bytes=group * tokens * layer, state_blocks=-(-recurrent // group))

"""Attention kernels to measure: PyTorch's own, or those that vLLM installs.

vLLM's FlashAttention 3 reads keys and values from pages, as the engine does (vLLM 0.23.0,
``v1/attention/backends/flash_attn.py``): pages of 16 tokens in an order that is drawn, the work split in
advance, up to 32 parts where steps run in CUDA graphs. PyTorch's kernels read keys and values in one piece.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from paceline.profiling.work import Attention

__all__ = ["Kernels", "PagedAttention", "TorchAttention"]

_PAGE = 16
#: Steps of up to so many tokens run in CUDA graphs, with up to so many parts a request (vLLM 0.23.0's
#: defaults).
_IN_GRAPHS = 512
_MOST_PARTS = 32


class Kernels(Protocol):
    """A source of attention kernels."""

    @property
    def name(self) -> str:
        """The kernels and their version, for the facts of a profile."""

    def call(self, work: Attention, fresh: Callable[..., Any]) -> Callable[[], Any]:
        """Return a call of the kernel on operands of its own, which ``fresh`` makes by shape."""


class TorchAttention:
    """Scaled dot-product attention as PyTorch dispatches it."""

    def __init__(self, torch: Any) -> None:  # noqa: ANN401 - the module
        self._torch = torch

    @property
    def name(self) -> str:
        """PyTorch's version."""
        return f"PyTorch {self._torch.__version__}"

    def call(self, work: Attention, fresh: Callable[..., Any]) -> Callable[[], Any]:
        """See :meth:`Kernels.call`.

        None of PyTorch's fast kernels has the mask of a chunk after other tokens. The chunk takes two
        kernels: all queries over the history, and the causal part.
        """
        attend = self._torch.nn.functional.scaled_dot_product_attention
        batch, queries = (1, work.tokens) if work.tokens else (work.requests, 1)
        shared = work.heads != work.kv_heads

        def cached(tokens: int) -> Any:  # noqa: ANN401 - a tensor
            return fresh(batch, work.kv_heads, tokens, work.head_dim)

        q = fresh(batch, work.heads, queries, work.head_dim)
        if not work.tokens:
            k, v = cached(work.context), cached(work.context)
            return lambda: attend(q, k, v, enable_gqa=shared)
        k, v = cached(work.tokens), cached(work.tokens)
        if not work.history:
            return lambda: attend(q, k, v, is_causal=True, enable_gqa=shared)
        before_k, before_v = cached(work.history), cached(work.history)

        def chunk() -> Any:  # noqa: ANN401 - tensors
            return (
                attend(q, before_k, before_v, enable_gqa=shared),
                attend(q, k, v, is_causal=True, enable_gqa=shared),
            )

        return chunk


class PagedAttention:
    """FlashAttention 3 over pages, as vLLM calls it on Hopper GPUs.

    Raises
    ------
    ImportError
        If vLLM is not installed, or its FlashAttention 3 does not run on the device.
    """

    def __init__(self, torch: Any, device: Any) -> None:  # noqa: ANN401 - the module and a torch.device
        self._torch, self._device = torch, device
        self._flash = import_module("vllm.vllm_flash_attn")
        if not self._flash.is_fa_version_supported(3):
            raise ImportError(str(self._flash.fa_version_unsupported_reason(3)))

    @property
    def name(self) -> str:
        """The version of vLLM that the kernels are of."""
        return f"FlashAttention 3 of vLLM {import_module('importlib.metadata').version('vllm')}"

    def call(self, work: Attention, fresh: Callable[..., Any]) -> Callable[[], Any]:
        """See :meth:`Kernels.call`."""
        torch = self._torch
        batch, queries = (1, work.tokens) if work.tokens else (work.requests, 1)
        length = work.history + work.tokens if work.tokens else work.context
        pages = -(-length // _PAGE)

        def numbers(*values: int) -> Any:  # noqa: ANN401 - a tensor
            return torch.tensor(values, dtype=torch.int32, device=self._device)

        q = fresh(batch * queries, work.heads, work.head_dim)
        k, v = (fresh(batch * pages, _PAGE, work.kv_heads, work.head_dim) for _ in range(2))
        order = torch.randperm(batch * pages, device=self._device)
        table = order.to(torch.int32).reshape(batch, pages)
        starts = numbers(*range(0, batch * queries + 1, queries))
        lengths = numbers(*[length] * batch)
        parts = _MOST_PARTS if batch * queries <= _IN_GRAPHS else 0
        schedule = self._flash.get_scheduler_metadata(
            batch_size=batch,
            max_seqlen_q=queries,
            max_seqlen_k=length,
            num_heads_q=work.heads,
            num_heads_kv=work.kv_heads,
            headdim=work.head_dim,
            cache_seqlens=lengths,
            qkv_dtype=q.dtype,
            cu_seqlens_q=starts,
            page_size=_PAGE,
            causal=True,
            num_splits=parts,
        )
        out = torch.empty_like(q)
        return lambda: self._flash.flash_attn_varlen_func(
            q=q,
            k=k,
            v=v,
            out=out,
            cu_seqlens_q=starts,
            max_seqlen_q=queries,
            seqused_k=lengths,
            max_seqlen_k=length,
            causal=True,
            block_table=table,
            scheduler_metadata=schedule,
            num_splits=parts,
            fa_version=3,
        )

"""Traffic and arithmetic of one layer's attention on one rank."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.model import Latent, Model

__all__ = ["Attention", "attention_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Traffic and arithmetic of one layer.

    Parameters
    ----------
    matrices
        Inputs and outputs of its matrix multiplications, the output projection last.
    elementwise
        Numbers that a token's rotary positions, and norms of queries and keys, read and write.
    kv_bytes
        Bytes that a token keeps in the cache, and a decode reads of each token of its context.
    decode_token_bytes, decode_pair_flops
        Bytes of a decoding token, and FLOPs of it with each token of its context.
    prefill_token_bytes, prefill_pair_flops
        The same of a token in prefill.
    prefill_kv_bytes
        Bytes that a prefill reads of each token of its context.
    """

    matrices: tuple[tuple[int, int], ...]
    elementwise: int
    kv_bytes: int
    decode_token_bytes: int
    decode_pair_flops: int
    prefill_token_bytes: int
    prefill_pair_flops: int
    prefill_kv_bytes: int


def attention_of(model: Model, ranks: int, kv_dtype: str) -> Attention:
    """Return the attention of a layer on one of ``ranks`` tensor-parallel ranks."""
    kv_bytes = model.kv_layer_bytes(ranks, kv_dtype)
    number = model.kv_dtype_bytes(model.dtype)
    if model.latent is not None:
        return _latent(model, model.latent, model.heads // ranks, kv_bytes, number)
    query = model.heads // ranks * model.head_dim
    gate = query if model.output_gate else 0
    key = model.kv_heads_per_rank(ranks) * model.head_dim
    # Query in, output out, its key and value in and to the cache.
    token_bytes = (2 * query + 2 * key) * number + kv_bytes
    # A query against a key and the weight against a value: 2 FLOPs a number each, in every head.
    pair_flops = 4 * query
    return Attention(
        matrices=((model.hidden_size, query + gate + 2 * key), (query, model.hidden_size)),
        # A gate is read with the output, which is written again.
        elementwise=(2 if model.qk_norm else 1) * 2 * (query + key) + 3 * gate,
        kv_bytes=kv_bytes,
        decode_token_bytes=token_bytes,
        decode_pair_flops=pair_flops,
        prefill_token_bytes=token_bytes,
        prefill_pair_flops=pair_flops,
        prefill_kv_bytes=kv_bytes,
    )


def _latent(model: Model, latent: Latent, heads: int, kv_bytes: int, number: int) -> Attention:
    """Return the same of latent attention, as vLLM runs it (``vllm/v1/attention/backends/mla``).

    Decodes work on the compressed cache: queries are projected to its width, so that a head's pair is a
    product of ``cached`` numbers and one of ``kv_rank``, and what comes out is projected back. Those two
    projections have the numbers and the FLOPs of the expansion to keys and values, which prompts take. What
    compresses is on every rank; heads are split.
    """
    hidden, inputs = model.hidden_size, latent.query_rank or model.hidden_size
    query, value = heads * latent.head_dim, heads * latent.value_dim
    expanded = heads * (latent.nope_dim + latent.value_dim)
    return Attention(
        matrices=(
            (hidden, (latent.query_rank or 0) + latent.cached),
            (inputs, query),
            (latent.kv_rank, expanded),
            (value, hidden),
        ),
        # The norms of what is compressed, and rotary positions of queries and of the shared key.
        elementwise=2 * ((latent.query_rank or 0) + latent.kv_rank + (heads + 1) * latent.rope_dim),
        kv_bytes=kv_bytes,
        decode_token_bytes=heads * (latent.cached + latent.kv_rank) * number + 2 * kv_bytes,
        decode_pair_flops=2 * heads * (latent.cached + latent.kv_rank),
        prefill_token_bytes=(2 * query + 2 * value) * number + 2 * kv_bytes,
        prefill_pair_flops=2 * heads * (latent.head_dim + latent.value_dim),
        prefill_kv_bytes=heads * (latent.head_dim + latent.value_dim) * number,
    )

"""Traffic and arithmetic of one layer with a state of constant size."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.model import Model, Recurrent

__all__ = ["States", "states_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Traffic and arithmetic of one layer on one rank, its two projections apart.

    Parameters
    ----------
    layers
        Layers of this kind.
    state_bytes
        Bytes of a request's state, which each step reads and writes once.
    decode_numbers, prefill_numbers
        Numbers that a token reads and writes besides, in a step that decodes it and in a chunk of a prompt.
    decode_flops, prefill_flops
        FLOPs of a token. A prompt's are linear in its tokens.
    """

    layers: int
    state_bytes: int
    decode_numbers: int
    prefill_numbers: int
    decode_flops: int
    prefill_flops: int


def states_of(model: Model, ranks: int) -> States | None:
    """Return the recurrent layers on one of ``ranks`` tensor-parallel ranks; None without any.

    A decode computes the recurrence: it scales the matrix of each head, adds the product of key and value,
    and multiplies with the query (5 FLOPs a number); Gated DeltaNet first takes away what the key recalls (2
    more).

    A prompt is computed in chunks of ``c`` tokens (SSD, arXiv:2405.21060, section 6, and its form with delta
    rule, arXiv:2412.06464, section 3.3). For a token and a head with keys of ``k`` and values of ``v``
    numbers: products of queries and keys and with values inside the chunk, ``2ck + 2cv``; with the state
    before it, and the update of the state, ``4kv``. The delta rule adds the products of keys, the inverse of
    their triangle, its products with keys and values, and what the keys recall: ``2ck + 2cc/3 + 2ck + 2cv +
    2kv``. Mamba-2 has the products of queries and keys once for each key head. The state after each chunk is
    written and read.
    """
    layer = model.recurrent
    if layer is None:
        return None
    channels, inner = layer.channels(ranks), layer.inner // ranks
    heads = layer.value_heads // ranks
    # The convolution reads and writes its channels, the recurrence reads them and writes its output, and the
    # norm before the output reads that and the gate, and writes.
    decode = 3 * channels + inner + 3 * inner
    prefill = decode + 2 * heads * layer.key_dim * layer.value_dim // layer.chunk_tokens
    if layer.kind == "gated_delta_net":
        prefill += 2 * heads * (layer.key_dim + layer.value_dim)
    return States(
        layers=layer.layers,
        state_bytes=model.state_layer_bytes(ranks),
        decode_numbers=decode,
        prefill_numbers=prefill,
        decode_flops=(7 if layer.kind == "gated_delta_net" else 5) * heads * layer.key_dim * layer.value_dim,
        prefill_flops=_chunked_flops(layer, ranks),
    )


def _chunked_flops(layer: Recurrent, ranks: int) -> int:
    """Return the FLOPs of a token of a prompt in one layer on one rank."""
    heads, chunk = layer.value_heads // ranks, layer.chunk_tokens
    key, value = layer.key_dim, layer.value_dim
    if layer.kind == "mamba2":
        return layer.key_heads_per_rank(ranks) * 2 * chunk * key + heads * (
            2 * chunk * value + 4 * key * value
        )
    inside = 2 * chunk * (key + value)
    delta = 4 * chunk * key + 2 * chunk * chunk // 3 + 2 * chunk * value + 2 * key * value
    return heads * (inside + 4 * key * value + delta)

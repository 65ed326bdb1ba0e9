"""The number of a model's weights on one rank."""

from __future__ import annotations

from dataclasses import dataclass

from paceline._arguments import typed_fields
from paceline.model.shape import DecoderShape

__all__ = ["Weights", "count_weights"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Weights:
    """Numbers of weights on one rank, in groups that can have their own types.

    Parameters
    ----------
    embeddings
        The embedding and the LM head.
    projections, outputs
        Attention's matrices before its output projection, and those projections, over all layers.
    matrices
        Recurrent layers, dense MLPs and shared experts, over all layers.
    experts
        The matrices of the routed experts, over all layers.
    small
        Norms, biases, convolutions and routers, over all layers.
    wide
        Routers in 32 bits, over all layers.
    """

    embeddings: float
    projections: float
    outputs: float
    matrices: float
    experts: float
    small: float
    wide: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        layers = self.projections + self.outputs + self.matrices + self.experts + self.small + self.wide
        return self.embeddings + layers


def count_weights(model: DecoderShape, ranks: int = 1, expert_ranks: int | None = None) -> Weights:
    """Count the weights on one of ``ranks`` tensor-parallel ranks.

    Matrices and embeddings are split; norms, routers and what latent attention compresses with are repeated,
    and so are key and value heads where there are fewer than ranks (vLLM's ``QKVParallelLinear``).
    ``expert_ranks`` share whole experts; by default experts are split like the other matrices.
    """
    tables = model.vocab_size * model.hidden_size * (1 if model.tied_embeddings else 2)
    projections, outputs, small = _attention(model, ranks)
    recurrent = model.recurrent
    experts = model.experts
    matrices = routed = wide = 0.0
    norm = model.hidden_size * (2 if model.norm_bias else 1)
    rest = model.attention_layers * small + (model.sublayers + 1) * norm
    if recurrent is not None:
        width = recurrent.projected(ranks) + recurrent.inner // ranks
        matrices += recurrent.layers * model.hidden_size * width
        rest += recurrent.layers * recurrent.small(ranks)
    if model.lm_head_bias:
        rest += model.vocab_size / ranks
    mlp = model.mlp_matrices * model.hidden_size * (model.intermediate_size // ranks)
    matrices += model.dense_layers * mlp
    if experts is not None:
        sharing = expert_ranks or ranks
        layers = model.layers - experts.dense_layers
        width = experts.intermediate_size
        routed = layers * experts.count * 3 * model.hidden_size * width / sharing
        matrices += layers * 3 * model.hidden_size * experts.shared_intermediate_size / ranks
        router = layers * experts.count * model.hidden_size
        if experts.router_dtype == "float32":
            wide += router
        else:
            rest += router
        if experts.router_bias:
            rest += layers * experts.count
        if experts.shared_gate:
            rest += layers * model.hidden_size
        if experts.bias:
            rest += layers * experts.count * (2 * width + model.hidden_size) / sharing
    return Weights(
        embeddings=tables / ranks,
        projections=model.attention_layers * projections,
        outputs=model.attention_layers * outputs,
        matrices=matrices,
        experts=routed,
        small=rest,
        wide=wide,
    )


def _attention(model: DecoderShape, ranks: int) -> tuple[float, float, float]:
    """Return the numbers in a layer's projections before attention and after it, and in norms and biases."""
    hidden, heads = model.hidden_size, model.heads // ranks
    latent = model.latent
    if latent is not None:
        inputs = latent.query_rank or hidden
        compress = hidden * (latent.query_rank or 0) + hidden * latent.cached
        expand = heads * latent.head_dim * inputs
        expand += latent.kv_rank * heads * (latent.nope_dim + latent.value_dim)
        out = heads * latent.value_dim * hidden
        return compress + expand, out, latent.kv_rank + (latent.query_rank or 0)
    query = heads * model.head_dim
    key_value = 2 * model.kv_heads_per_rank(ranks) * model.head_dim
    small = 2 * model.head_dim if model.qk_norm else 0
    small += (query + key_value if model.qkv_bias else 0) + (hidden if model.output_bias else 0)
    small += heads if model.attention_sinks else 0
    gate = query if model.output_gate else 0
    return hidden * (query + gate + key_value), query * hidden, small

"""The matrix multiplications of every token, and the numbers that it moves between them."""

from __future__ import annotations

from typing import NamedTuple

from paceline.cost.attention import Attention
from paceline.model import Experts, Model

__all__ = ["Matrix", "elementwise_numbers", "expert_numbers", "matrices_of"]


class Matrix(NamedTuple):
    """A matrix on one rank, with the type of its weights."""

    inputs: int
    outputs: int
    layers: int
    dtype: str


def matrices_of(model: Model, attention: Attention, ranks: int) -> list[Matrix]:
    """Return all matrices but tables and routed experts, on one of ``ranks`` tensor-parallel ranks."""
    layers, hidden = model.layers, model.hidden_size
    other = model.matrix_dtype
    *before, after = attention.matrices
    matrices = [Matrix(*of, model.attention_layers, model.projection_dtype) for of in before]
    matrices.append(Matrix(*after, model.attention_layers, model.output_projection_dtype))
    recurrent = model.recurrent
    if recurrent is not None:
        matrices += [
            Matrix(hidden, recurrent.projected(ranks), recurrent.layers, other),
            Matrix(recurrent.inner // ranks, hidden, recurrent.layers, other),
        ]
    if model.dense_layers:
        mlp = model.intermediate_size // ranks
        matrices += [
            Matrix(hidden, (model.mlp_matrices - 1) * mlp, model.dense_layers, other),
            Matrix(mlp, hidden, model.dense_layers, other),
        ]
    experts = model.experts
    if experts is not None:
        mixed = layers - experts.dense_layers
        router = model.dtype if experts.router_dtype == "auto" else experts.router_dtype
        matrices.append(Matrix(hidden, experts.count, mixed, router))
        if experts.shared_intermediate_size:
            shared = experts.shared_intermediate_size // ranks
            matrices += [
                Matrix(hidden, 2 * shared, mixed, other),
                Matrix(shared, hidden, mixed, other),
            ]
    return matrices


def elementwise_numbers(model: Model, attention: Attention, ranks: int) -> int:
    """Return the numbers that a token moves outside matrices and attention, on one rank.

    Each norm before attention, a state or an MLP adds the residual: two vectors in, two out. Rotary
    positions, and the norms of queries and keys, read and write both. The activation reads two widths, or one
    without a gate, and writes one (that of the routed experts is in their kernel). Once a step come the
    embedding (one in, one out) and the last norm.
    """
    hidden = model.hidden_size
    layers = model.sublayers * 4 * hidden + model.attention_layers * attention.elementwise
    activation = model.dense_layers * model.mlp_matrices * (model.intermediate_size // ranks)
    experts = model.experts
    if experts is not None:
        shared = experts.shared_intermediate_size // ranks
        activation += (model.layers - experts.dense_layers) * 3 * shared
    return layers + activation + 2 * hidden + 4 * hidden


def expert_numbers(model: Model, experts: Experts, *, ranks: int, data_ranks: int, whole: bool) -> float:
    """Return the numbers that a token moves in one layer's routed experts, on one rank.

    Its copies in, gate and up out and in, their product out and in, the experts' outputs, and the sum of
    those.

    Parameters
    ----------
    model, experts
        The model and its experts.
    ranks, data_ranks
        Tensor-parallel ranks, and those of attention that share the experts: a rank has the tokens of all.
    whole
        Whether whole experts are distributed over all ranks. Split experts get every copy and have a part of
        the width; whole experts get a part of the copies.
    """
    hidden, width = model.hidden_size, experts.intermediate_size
    copies = experts.per_token * (1 / ranks if whole else data_ranks)
    inner = width if whole else width / (ranks * data_ranks)
    return copies * (hidden + 2 * inner + 3 * inner + inner + 2 * hidden) + data_ranks * hidden

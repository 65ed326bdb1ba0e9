"""Bytes and FLOPs of an instance's steps, apart from their time.

The engine adds up tokens, contexts, pairs, rows and the experts hit, and applies these coefficients to the
sums (``rust/core/src/cost/traffic``). They belong to the model and how it is split, not to a cost model:
an instance with measured kernels, or with a straight line for a cost, moves the same bytes.
"""

from __future__ import annotations

import math
from typing import Any

from paceline.cost.attention import attention_of
from paceline.cost.coverage import Coverage
from paceline.cost.exchange import exchanges_of
from paceline.cost.matrices import elementwise_numbers, expert_numbers, matrices_of
from paceline.cost.mixture import shared_experts
from paceline.cost.states import states_of
from paceline.hardware.energy import Energy
from paceline.model import Model
from paceline.model.dtypes import MATRIX_BYTES, NORM_BYTES, WEIGHT_BYTES
from paceline.model.weights import count_weights

__all__ = ["LOAD_FRACTION_BITS", "traffic_wire"]

LOAD_FRACTION_BITS = 20  # as rust/core/src/cost/traffic
_SAMPLER_BYTES = 8  # a logit becomes a 32-bit number (written) and is read as one


def traffic_wire(
    model: Model,
    *,
    tensor_parallel: int = 1,
    kv_dtype: str = "auto",
    coverage: Coverage | None = None,
    expert_parallel: bool = False,
    data_parallel: int = 1,
    pipeline_parallel: int = 1,
    energy: Energy | None = None,
) -> dict[str, Any]:
    """Return the coefficients by which the engine counts traffic: whole numbers over all layers and ranks.

    What is counted:

    - *weights*: all but the embedding (of which a token reads a row) and the routed experts, once a step; the
      LM head where a row is sampled;
    - *routed experts*: those that a token of the layer's batch is routed to, once a step;
    - *keys and values*: of the whole context for each decode, and once per chunk of a prefill, in layers with
      a sliding window of what lies inside; written once a token;
    - *states* of recurrent layers, counted with keys and values: read and written once by each decode and by
      each chunk of a prefill, also by the first, whose state is still empty;
    - *activations*: in and out of matrices, attention, experts, norms, rotary positions, sampler;
    - *FLOPs*: two for each weight that a token is multiplied with, and those of attention;
    - *links*: all-reduces as rings, ``2 (n - 1) / n`` of the message from each of ``n`` ranks, the least that
      any way of doing them moves. A one-shot all-reduce of more than two ranks moves more. Besides, what
      :func:`~paceline.cost.exchange.exchanges_of` says.

    Kernels are taken to read each operand once. Caches that keep weights between kernels, and attention that
    reads a prefill's context again for each block of queries, are not modelled. Prompts under latent
    attention read keys and values of their whole context as expanded for each head, as they do in the
    roofline.

    Parameters
    ----------
    model
        What runs.
    tensor_parallel, kv_dtype
        As of an instance.
    coverage
        A measured curve of the experts that a batch needs; by default routing is uniform.
    expert_parallel
        Whether ranks hold whole experts; it changes the activations, and loads the same experts.
    data_parallel
        Ranks of attention that share the experts, of which the instance is one. It counts its share of the
        experts that all of them load.
    pipeline_parallel
        Stages that the layers are divided into.
    energy
        The energy of bytes, FLOPs and time on the GPU, if known.

    Examples
    --------
    >>> from paceline.model import Model
    >>> model = Model.load("llama-3.1-8b")
    >>> wire = traffic_wire(model)
    >>> wire["weights"] + wire["head"] == model.weight_bytes() - 128256 * 4096 * 2    # all but the embedding
    True
    >>> wire["decode"]["attention"]["context"] == model.kv_bytes_per_token()
    True
    """
    ranks = tensor_parallel
    attention = attention_of(model, ranks, kv_dtype)
    number = model.kv_dtype_bytes(model.dtype)
    hidden, layers, vocab = model.hidden_size, model.attention_layers, model.vocab_size
    states = states_of(model, ranks)
    matrices = matrices_of(model, attention, ranks)
    passed: float = sum(layers * (inputs + outputs) for inputs, outputs, layers, _ in matrices)
    passed += elementwise_numbers(model, attention, ranks)
    multiplied: float = sum(layers * inputs * outputs for inputs, outputs, layers, _ in matrices)
    experts = model.experts
    if experts is not None:
        mixed = model.layers - experts.dense_layers
        passed += mixed * expert_numbers(
            model, experts, ranks=ranks, data_ranks=data_parallel, whole=expert_parallel
        )
        multiplied += mixed * experts.per_token * 3 * hidden * experts.intermediate_size / ranks
    exchanged = sum(
        of.times * of.sent_bytes
        for of in exchanges_of(model, ranks=ranks, data_ranks=data_parallel, stages=pipeline_parallel)
    )
    reduced = (model.sublayers + 1) * hidden * number + model.norm_reductions * NORM_BYTES
    token = {
        "kv_written": ranks * layers * attention.kv_bytes,
        "flops": round(2 * ranks * multiplied),
        "link": 2 * (ranks - 1) * reduced + round(ranks * exchanged),
    }
    activations = ranks * passed * number
    windows = model.sliding_layers
    sides = {
        side: {"context": ranks * of["context"], "pair": ranks * of["pair"]}
        for side, of in (
            ("decode", {"context": attention.kv_bytes, "pair": attention.decode_pair_flops}),
            ("prefill", {"context": attention.prefill_kv_bytes, "pair": attention.prefill_pair_flops}),
        )
    }

    def attended(side: str, layers: int) -> dict[str, int]:
        return {name: layers * value for name, value in sides[side].items()}

    moved = {
        "decode": layers * (attention.decode_token_bytes - attention.kv_bytes),
        "prefill": layers * (attention.prefill_token_bytes - attention.kv_bytes),
    }
    scanned = {"decode": 0, "prefill": 0}
    if states is not None:
        moved["decode"] += states.layers * states.decode_numbers * number
        moved["prefill"] += states.layers * states.prefill_numbers * number
        scanned = {
            "decode": states.layers * states.decode_flops,
            "prefill": states.layers * states.prefill_flops,
        }
    return {
        "weights": _layer_bytes(model, ranks),
        "head": round(vocab * hidden * WEIGHT_BYTES[model.dtype]),
        "experts": _loads(model, coverage, data_parallel),
        **{
            side: {
                **token,
                "flops": token["flops"] + ranks * scanned[side],
                "activations": round(activations + ranks * moved[side]),
                "attention": attended(side, layers - windows),
            }
            for side in ("decode", "prefill")
        },
        "row": {
            "activations": (ranks * hidden + vocab) * number + vocab * (number + _SAMPLER_BYTES),
            "flops": 2 * hidden * vocab,
            "link": vocab * number * (ranks - 1) // ranks,
        },
        "windows": {
            "tokens": model.sliding_window,
            "decode": attended("decode", windows),
            "prefill": attended("prefill", windows),
        }
        if windows
        else None,
        "state": 0 if states is None else ranks * states.layers * states.state_bytes,
        "power": None if energy is None else energy.to_wire(gpus=ranks * pipeline_parallel, busy=ranks),
    }


def _layer_bytes(model: Model, ranks: int) -> int:
    """Return the bytes of all layers' weights on all ranks, routed experts and tables aside."""
    weights = count_weights(model, ranks)
    small = weights.small
    if model.experts is not None and model.experts.bias:
        # Biases of experts are counted with the experts.
        mixed = model.layers - model.experts.dense_layers
        small -= mixed * model.experts.count * _expert_biases(model) / ranks
    bytes_ = weights.projections * WEIGHT_BYTES[model.projection_dtype]
    bytes_ += weights.outputs * WEIGHT_BYTES[model.output_projection_dtype]
    bytes_ += weights.matrices * WEIGHT_BYTES[model.matrix_dtype] + small * WEIGHT_BYTES[model.dtype]
    bytes_ += weights.wide * MATRIX_BYTES["float32"]
    return round(ranks * bytes_)


def _expert_biases(model: Model) -> int:
    assert model.experts is not None, "Invariant: only mixtures have experts"
    return 2 * model.experts.intermediate_size + model.hidden_size if model.experts.bias else 0


def _loads(model: Model, coverage: Coverage | None, data_ranks: int) -> dict[str, Any] | None:
    """Return the bytes of an expert in all layers, and how many a layer needs by tokens."""
    experts = model.experts
    if experts is None:
        return None
    weights = 3 * model.hidden_size * experts.intermediate_size * WEIGHT_BYTES[model.expert_dtype]
    biases = _expert_biases(model) * WEIGHT_BYTES[model.dtype]
    loads = [
        [tokens, round(covered / data_ranks * 2**LOAD_FRACTION_BITS)]
        for tokens, covered in enumerate(shared_experts(experts, coverage, data_ranks), start=1)
    ]
    return {"bytes": math.ceil((model.layers - experts.dense_layers) * (weights + biases)), "loads": loads}

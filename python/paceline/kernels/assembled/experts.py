"""A layer's mixture of experts: router, what all tokens pass, and the routed experts of a rank."""

from __future__ import annotations

import polars as pl

from paceline.errors import ConfigError
from paceline.kernels.assembled.rank import MS, Rank, pick_kernel
from paceline.kernels.curve import Curve

__all__ = ["mixture"]

#: Distributions of tokens over experts that were measured, the first that is there counts. AISimulate's own
#: default for prediction is the first: loads that fall with a power of 1.01 of the expert's place.
_ROUTING = ("power_law_1.01", "power_law_1.2", "balanced")
# What the database calls the types of weights that a model may have, the one that engines choose first. Where
# there are kernels with 8-bit activations (TensorRT-LLM and SGLang on Blackwell), MXFP4 experts run in these.
_TYPES = {
    "fp8": ("fp8_block", "fp8"),
    "mxfp4": ("w4a8_mxfp4_mxfp8", "w4a16_mxfp4", "mxfp4", "w4a8_mxfp4"),
    "nvfp4": ("nvfp4",),
}


def mixture(rank: Rank) -> dict[str, Curve]:
    """Return ``router``, ``shared_experts`` and ``experts``, the last over the tokens of all ranks.

    The database measured the rank with the most work of those that share the experts, at a given number of
    tokens over all of them.
    """
    model = rank.model
    experts = model.experts
    assert experts is not None, "Invariant: only mixtures come here"
    product = rank.in_32_bits if experts.router_dtype == "float32" else rank.multiplication
    layers = {
        "router": product(model.hidden_size, experts.count, model.dtype),
        "experts": _routed(rank),
    }
    if experts.shared_intermediate_size:
        parts = rank.gated("up", "act", "down", experts.shared_intermediate_size)
        layers["shared_experts"] = parts["up"] + parts["act"] + parts["down"]
    return layers


def _routed(rank: Rank) -> Curve:
    model, experts = rank.model, rank.model.experts
    assert experts is not None, "Invariant: only mixtures come here"
    sharing = rank.ranks * rank.data_parallel
    split, dealt = (1, sharing) if rank.expert_parallel else (sharing, 1)
    shape = (
        (pl.col("hidden_size") == model.hidden_size)
        & (pl.col("inter_size") == experts.intermediate_size)
        & (pl.col("topk") == experts.per_token)
        & (pl.col("num_experts") == experts.count)
    )
    table = rank.expert_table().filter(shape)
    names = _TYPES.get(model.expert_dtype, (model.expert_dtype,))
    shared = table.filter((pl.col("moe_tp_size") == split) & (pl.col("moe_ep_size") == dealt))
    dtype = next((name for name in names if name in shared["moe_dtype"]), names[0])
    rows = shared.filter(pl.col("moe_dtype") == dtype)
    if rows.is_empty():
        alike = table.filter(pl.col("moe_dtype").is_in(names))
        known = sorted(set(alike.select("moe_tp_size", "moe_ep_size").rows()))
        there = ", ".join(f"{tp} x {ep}" for tp, ep in known) or "none of that shape and type"
        size, whole = f"{model.hidden_size} x {experts.intermediate_size}", f"dealt out to {dealt} ranks"
        raise ConfigError(
            f"moe_perf of {rank.experts_of or rank.backend} on {rank.gpu} must have {experts.count} "
            f"{model.expert_dtype} experts of {size}, {experts.per_token} a token, each split in {split} and "
            f"{whole}; it has {there}"
        )
    routing = next(name for name in (*_ROUTING, rows["distribution"][0]) if name in rows["distribution"])
    rank.facts["moe_dtype"], rank.facts["routing"] = dtype, routing
    chosen = pick_kernel(rows.filter(pl.col("distribution") == routing))
    return Curve.of((n, MS * ms) for n, ms in chosen.select("num_tokens", "latency").iter_rows())

"""A model's profile, made up of the operators in AISimulate's database."""

from __future__ import annotations

from paceline.errors import ConfigError
from paceline.kernels.aisimulate import Database
from paceline.kernels.assembled.attention import grouped
from paceline.kernels.assembled.exchange import collectives
from paceline.kernels.assembled.experts import mixture
from paceline.kernels.assembled.latent import latent
from paceline.kernels.assembled.rank import Backend, Rank
from paceline.kernels.operators import mixed_grid
from paceline.kernels.profile import KernelProfile
from paceline.model import Model

__all__ = ["Backend", "assemble"]


def assemble(
    database: Database,
    model: Model,
    gpu: str,
    *,
    backend: Backend = "vllm",
    version: str | None = None,
    tensor_parallel: int = 1,
    data_parallel: int = 1,
    expert_parallel: bool = False,
    kv_dtype: str = "auto",
    experts_of: str = "",
    matrix_flops: float = 0.0,
) -> KernelProfile:
    """Make a model's profile of what the database has on a GPU.

    Matrix multiplications lie between measured widths, linear on each; attention between measured numbers of
    heads. Norms, rotary positions and activations are their memory traffic over the bandwidth and constant
    latency of the database's system file. Contexts of unequal length were not measured.

    Parameters
    ----------
    database
        Where the operators are.
    model
        The model.
    gpu
        As the database calls it: ``h100_sxm``, ``rtx_pro_6000_server``.
    backend, version
        The version of the kernels; None: the newest with both matrix multiplications and attention. A table
        that the version lacks is the newest older one.
    tensor_parallel
        Ranks that the model is split over.
    data_parallel
        Groups of such ranks that share the experts of a mixture.
    expert_parallel
        Whether those are dealt out whole.
    kv_dtype
        Type of the KV cache, of which attention is taken; ``auto``: the model's.
    experts_of
        An engine and its version, ``sglang/0.5.14``, whose experts are taken; empty: the backend's.
    matrix_flops
        FLOP/s that multiplications of 8-bit weights reach at most; 0: as they were measured.

    Returns
    -------
    KernelProfile
        Of one rank.

    Raises
    ------
    ConfigError
        If the database lacks a table, or the model's attention or experts were not measured.
    """
    if model.attention_layers < model.layers:
        raise ConfigError(
            f"model to assemble kernels for must have attention in all layers, {model.name!r} has "
            f"{model.attention_layers} of {model.layers}: give its Instance a Roofline"
        )
    model.check_parallel(
        tensor_parallel, expert_ranks=tensor_parallel * data_parallel if expert_parallel else None
    )
    rank = Rank(
        database=database,
        model=model,
        gpu=gpu,
        backend=backend,
        version=version or database.newest(gpu, backend),
        ranks=tensor_parallel,
        data_parallel=data_parallel,
        expert_parallel=expert_parallel,
        kv_dtype=kv_dtype,
        experts_of=experts_of,
        matrix_flops=matrix_flops,
    )
    attention = grouped(rank) if model.latent is None else latent(rank)
    dense = {**rank.once(), **attention.dense}
    if model.dense_layers:
        dense |= rank.gated("gate_up_proj", "act_fn", "down_proj", model.intermediate_size)
    if model.experts is not None:
        dense |= mixture(rank)
    exchange = collectives(rank)
    head = rank.multiplication(model.hidden_size, model.vocab_size // tensor_parallel, model.dtype)
    return KernelProfile(
        name=f"{model.name} on {gpu}",
        source=f"{database.where} ({backend} {rank.version})",
        dense=dense,
        per_sequence={"lm_head": head},
        decode=attention.decode,
        prefill=attention.prefill,
        mixed=mixed_grid(attention.prefill, attention.decode),
        collectives=exchange,
        tensor_parallel=tensor_parallel,
        whole_attention=attention.whole,
        facts=_facts(rank),
    )


def _facts(rank: Rank) -> dict[str, str]:
    """Return what was asked for, and what was taken from where."""
    return {
        "format": "aisimulate",
        "model": rank.model.name,
        "gpu": rank.gpu,
        "backend": rank.backend,
        "version": rank.version,
        "data_parallel": str(rank.data_parallel),
        "expert_parallel": str(rank.expert_parallel).lower(),
        "kv_dtype": rank.cached,
        **rank.facts,
    }

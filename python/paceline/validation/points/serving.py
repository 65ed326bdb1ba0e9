"""From a measured point to the cluster and the policy that replay it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from paceline import _check
from paceline._arguments import typed
from paceline.cost import Roofline
from paceline.deployment import Balance, Cluster, Instance, Links, Lockstep, Medium, kv_memory
from paceline.errors import ConfigError, FitError
from paceline.hardware import Gpu
from paceline.hosts import EngineHost, version_key
from paceline.kernels import Table
from paceline.kernels.store import shipped, stored
from paceline.model import Model
from paceline.policies.disaggregated import disaggregated
from paceline.policies.sglang import sglang
from paceline.policies.tensorrt_llm import tensorrt_llm
from paceline.policies.vllm import vllm
from paceline.policy import Policy, inst, pick
from paceline.validation.points.point import Server
from paceline.validation.prediction import decides_ahead

__all__ = ["COSTS", "Cost", "Unserved", "cluster_of", "frontend_token_s", "host_of", "policy_of", "profiles"]

Cost = Literal["tables", "roofline"]
#: Costs of a step, the one that is scored where both can be used first.
COSTS: tuple[Cost, ...] = ("tables", "roofline")

_PROFILE_GPUS = {
    "a100-80gb": "a100_sxm",
    "h100-sxm": "h100_sxm",
    "h200": "h200_sxm",
    "b200": "b200_sxm",
    "gb200": "gb200",
    "b300": "b300_sxm",
    "gb300": "gb300",
}
#: Up to this version of vLLM its API server runs at most 256 requests at once by default, later 1,024.
_FEW_SEATS = (0, 8)
#: Older versions of vLLM whose runs have the flag: ML.ENERGY's.
_ASYNCHRONOUS = ("0.11.1",)
#: TensorRT-LLM's defaults of ``max_num_tokens`` and ``max_batch_size``.
_TRTLLM = (8192, 2048)
#: Tokens of a KV block by engine, and the share of the memory that vLLM and TensorRT-LLM use by default.
_BLOCK_TOKENS = {"vllm": 16, "sglang": 1, "trtllm": 32}
_MEMORY = 0.9
_RULES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}
#: Bytes that TensorRT-LLM needs of a GPU for DeepSeek beyond what the rule counts. Its log on eight H200,
#: with steps of 16,384 tokens, says "Peak memory during memory usage profiling (torch + non-torch): 91.46
#: GiB" of 139.81, as srt-slurm's reader of such logs quotes it (with 35,136 bytes of KV a token); the rule
#: says 81.71.
_TRTLLM_BEYOND = 9.75 * 2**30
#: vLLM's MXFP4 experts on Hopper run in Marlin's kernels (``VLLM_MXFP4_USE_MARLIN=1`` in InferenceX's script
#: for H200), of which there are no tables: FLOP/s of a GPU, and seconds of a layer for each token that no
#: split shortens. Fitted to TTFT of the points of gpt-oss-120b: by split their medians ask for 190, 145, 118
#: and 75 TFLOP/s on 1, 2, 4 and 8 GPUs, which lie on a line with 230 ns; 30 of these are the front end's.
_MARLIN_FLOPS, _MARLIN_TOKEN_S = 244e12, 200e-9
#: SGLang's default of ``chunked_prefill_size`` on GPUs of 80 GB and more.
_SGLANG_CHUNK = 8192


#: GPUs whose host machines launch a prompt's kernels in less time than these take: DeepSeek's first token is
#: there after 71 to 77 ms on four and eight B300 under SGLang 0.5.12 with one request in flight, of which the
#: front end has 50, and after 160 ms on eight B200.
_QUICK_LAUNCHES = ("b300",)
#: TensorRT-LLM's experts in Triton's kernels (``moe_config`` of gptoss_fp4_h200_trt.sh), of which Python
#: launches each, and the seconds of a layer's launches in a step with prompts. Fitted to TTFT of half of 100
#: points of gpt-oss-120b on one to eight H200, whose first token comes after 90 to 140 ms whatever the split:
#: halves ask for 1.1 and 1.3 ms, beside the front end of trtllm-1.3. With TensorRT-LLM's own kernels, as
#: gptoss_fp4_b200_trt.sh has them, points ask for none.
_TRITON, _TRITON_LAYER_S = "TRITON", 1.2e-3
#: GPUs of a node of GB200. TensorRT-LLM sums over more of them in kernels of its own (``allreduce_strategy:
#: MNNVL`` in srt-slurm's recipes); the tables have NCCL's, by which the median of TPOT is 50% too high.
_TRAY = 4


class Unserved(Exception):
    """A server cannot be built; the message says why, in words that are counted."""


def profiles() -> Mapping[tuple[str, str], Sequence[str]]:
    """Return the versions of imported kernels by GPU and engine, the oldest first."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in stored():
        parts = entry.name.split("/")
        if entry.what == "operators" and len(parts) == 4:
            found.setdefault((parts[1], parts[2]), []).append(parts[3])
    return {key: sorted(versions, key=version_key) for key, versions in found.items()}


def table_of(server: Server, known: Mapping[tuple[str, str], Sequence[str]]) -> Table:
    """Return the kernels of a server's GPU and engine.

    A shipped profile of the model on that GPU comes first (its attention kernels are vLLM's); then
    operators of the next version that was measured, else of the last.

    Raises
    ------
    Unserved
        If there are none.
    """
    if server.profile is not None:
        return Table(profile=server.profile, expert_parallel=server.expert_parallel)
    own = _own(server)
    if own is not None:
        return Table(profile=own)
    if (server.gpu, server.engine) == ("gb200", "trtllm") and server.tensor_parallel > _TRAY:
        raise Unserved("sums over GPUs of several trays, of which the tables have NCCL's alone")
    slow = max(marlin_token_s(server), server.expert_token_s)
    gpu = _PROFILE_GPUS.get(server.gpu, server.gpu)
    versions = known.get((gpu, server.engine), ())
    if not versions:
        raise Unserved(f"no kernels of {server.engine} on {server.gpu} are imported")
    wanted = version_key(server.version)
    later = [version for version in versions if wanted and version_key(version) >= wanted]
    version = later[0] if later else versions[-1]
    return Table(
        profile=f"aisimulate/{gpu}/{server.engine}/{version}",
        data_parallel=server.data_parallel,
        expert_parallel=server.expert_parallel,
        expert_token_s=slow,
        experts_of=_experts_of(server, known),
        matrix_flops=server.matrix_flops,
    )


def _own(server: Server) -> str | None:
    """Return the shipped profile of a server's model, in the catalog's types of weights, on its GPU."""
    name, model = f"{server.gpu}-{server.model.name}", server.model
    if server.engine != "vllm" or server.tensor_parallel > 1 or server.profile is not None:
        return None
    if name not in {entry.name for entry in shipped()} or model != Model.load(model.name):
        return None
    return name


def _experts_of(server: Server, known: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """Return the engine whose tables have a server's experts; empty: its own.

    InferenceX's scripts of 2026 for DeepSeek under TensorRT-LLM on B200 set ``MOE_BACKEND="TRTLLM"`` (those
    for B300 count as the same); those of 2025, which dealt out the experts, ``DEEPGEMM`` in 8 bits, and
    ``TRTLLM`` in NVFP4, too. Ranks of attention have ``DEEPGEMM`` and ``CUTLASS``. Of 8-bit experts its
    tables have DeepGEMM's alone, of NVFP4 first CUTLASS's, and SGLang's have TensorRT-LLM's of both, by way
    of FlashInfer. Where a script names the backend of a run, that one counts.

    vLLM's tables on Blackwell have MXFP4 experts with 16-bit activations alone. gptoss_fp4_b200.sh sets
    ``VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8``, so 0.15.1, which it ran, has TensorRT-LLM's with 8 bits.
    """
    if server.engine == "vllm":
        there = known.get((_PROFILE_GPUS.get(server.gpu, server.gpu), "trtllm"), ())
        mxfp4 = server.model.experts is not None and server.model.expert_dtype == "mxfp4"
        eight = mxfp4 and server.gpu == "b200" and server.version == "0.15.1"
        return f"trtllm/{there[-1]}" if eight and there else ""
    versions = known.get((_PROFILE_GPUS.get(server.gpu, server.gpu), "sglang"), ())
    kind = None if server.model.experts is None else server.model.expert_dtype
    eight = kind == "fp8" and server.gpu in ("b200", "b300") and not server.expert_parallel
    theirs = kind == "nvfp4" or eight
    if server.moe_backend:
        theirs = server.moe_backend == "TRTLLM"
    if server.data_parallel > 1:
        # CUTLASS's of NVFP4, which the scripts set, are slower in the tables than they ran.
        theirs = kind == "nvfp4"
    return f"sglang/{versions[-1]}" if server.engine == "trtllm" and theirs and versions else ""


def marlin_token_s(server: Server) -> float:
    """Return the seconds of a layer's experts for a token in Marlin's kernels; 0 where others run."""
    experts = server.model.experts
    slow = server.engine == "vllm" and server.gpu in ("h100-sxm", "h200")
    if experts is None or experts.dtype != "mxfp4" or not slow:
        return 0.0
    flop = 6 * server.model.hidden_size * experts.intermediate_size * experts.per_token
    return flop / server.tensor_parallel / _MARLIN_FLOPS + _MARLIN_TOKEN_S


@typed()
def cluster_of(
    server: Server,
    cost: Literal["tables", "roofline"],
    known: Mapping[tuple[str, str], Sequence[str]],
    *,
    hosts: bool = True,
) -> Cluster:
    """Return the cluster of a server.

    Parameters
    ----------
    server
        What served a point.
    cost
        Measured kernels, or the catalog's roofline.
    known
        Versions of imported kernels by GPU and engine, as :func:`profiles` returns them.
    hosts
        Whether the host time of its engine's version is added, where that was measured; that of the newest
        one where the data do not say the version.

    Raises
    ------
    Unserved
        If it cannot be built: no kernels, or no memory for KV.
    """
    try:
        pools = [(server.prefill, server.prefilling)] if server.prefill else []
        pools.append((server.instances - server.prefill, server))
        port = Medium.load(server.network or "nvlink-h100").beside(server.tensor_parallel)
        links = Links(port=port) if server.prefill else None
        instances: list[Instance] = []
        groups: list[Lockstep] = []
        for count, one in pools:
            # A roofline counts other ranks as having as many tokens: so they have if prompts wait for them.
            if cost == "tables" or one.balance is not None:
                groups += _groups(one, count, len(instances))
            instances += count * one.data_parallel * [_instance(one, cost, known)]
        cluster = Cluster(instances, links=links, lockstep=tuple(groups))
        host = host_of(server, cost) if hosts else None
        return cluster if host is None else host.on(cluster)
    except FitError as error:
        raise Unserved(f"the weights leave no memory for KV, by {_RULES[server.engine]}'s rule") from error
    except ConfigError as error:
        raise Unserved(_in_few_words(str(error))) from error


def _groups(server: Server, count: int, first: int) -> list[Lockstep]:
    """Return the ranks of attention of so many instances, from ``first`` on, that step together.

    The first ranks of all instances stand before the second ones, so that requests go to instances in turn.
    Ranks that step on their own count the others as having as many tokens.
    """
    ranks = server.data_parallel
    if ranks == 1 or "balance" in server.assumed:
        return []
    balance = None
    if server.balance is not None:
        balance = Balance(timeout_steps=server.balance[0], gather_steps=server.balance[1])
    return [Lockstep(range(first + at, first + count * ranks, count), balance) for at in range(count)]


def _instance(server: Server, cost: Cost, known: Mapping[tuple[str, str], Sequence[str]]) -> Instance:
    """Return an instance of a server, or a rank of one."""
    return Instance(
        model=server.model,
        gpu=server.gpu,
        tensor_parallel=server.tensor_parallel,
        num_blocks=_blocks(server),
        gpu_memory_utilization=_MEMORY if server.memory is None else server.memory,
        kv_dtype=server.kv_dtype,
        max_model_len="auto",
        block_tokens=_BLOCK_TOKENS[server.engine],
        cost=table_of(server, known)
        if cost == "tables"
        else Roofline(expert_parallel=server.expert_parallel, data_parallel=server.data_parallel),
    )


def _blocks(server: Server) -> int | None:
    """Return the KV blocks by the rule of the server's engine; None: the instance applies vLLM's.

    SGLang's share of the memory is for weights and KV. TensorRT-LLM's is of what weights and a prefill leave;
    its prefill is of few requests, so that next to no logits are in it. See also :data:`_TRTLLM_BEYOND`.

    Raises
    ------
    FitError
        If there is no memory for any.
    """
    known = server.num_blocks is not None or (server.engine == "sglang" and server.memory is None)
    if known or server.engine == "vllm":
        return server.num_blocks
    whole = kv_memory(
        server.model,
        Gpu.load(server.gpu),
        tensor_parallel=server.tensor_parallel,
        block_tokens=_BLOCK_TOKENS[server.engine],
        gpu_memory_utilization=1.0,
        max_num_batched_tokens=server.max_num_batched_tokens or _TRTLLM[0],
        max_num_seqs=1,
        kv_dtype=server.kv_dtype,
        expert_ranks=server.expert_ranks,
    )
    share = _MEMORY if server.memory is None else server.memory
    beyond = _TRTLLM_BEYOND if server.model.latent is not None else 0.0
    left = share * (whole.kv_bytes - beyond)
    if server.engine == "sglang":
        left = share * whole.requested_bytes - whole.weight_bytes
    found = int(left) // whole.block_bytes
    if found < 2:
        raise FitError(f"KV must have memory, weights and activations leave {left:.0f} bytes")
    return found


def host_of(server: Server, cost: Cost) -> EngineHost | None:
    """Return the host of a server's version; one that the data do not say counts as a new one."""
    kernels = "shipped" if cost == "tables" and _own(server) is not None else ""
    host = EngineHost.of(server.engine, server.version, kernels=kernels)
    host = host if server.version else EngineHost.newest(server.engine)
    if host is None:
        return None
    # Graphs of prompts are launched whole.
    short = server.prompt_graphs or server.gpu in _QUICK_LAUNCHES
    launches = 0.0 if short else host.latent_layer_s
    floor = server.model.layers * _TRITON_LAYER_S if server.moe_backend == _TRITON else 0.0
    return replace(
        host,
        latent_layer_s=launches,
        prompt_step_s=max(host.prompt_step_s, floor),
        step_s=host.step_s + server.step_s,
    )


def frontend_token_s(server: Server, cost: Cost) -> float:
    """Return the front end's seconds for each token of a prompt, by the engine's version."""
    host = host_of(server, cost)
    return 0.0 if host is None else host.frontend_token_s


def _in_few_words(message: str) -> str:
    """Return what kernels lack without what there is instead and where it was looked for."""
    found = re.search(r"must have (.+?)(?:; |, had |, has |, lacked )", f"{message}; ")
    short = message if found is None else f"no kernels: {found[1]}"
    return re.sub(r"\s+", " ", short)[:160]


@typed()
def policy_of(server: Server) -> Policy:
    """Return the scheduler of a server's engine and version, and how it routes: in turn over its ranks.

    TensorRT-LLM's ranks are the exception: a request joins the one with the fewest
    (``_balance_requests_across_ranks``).

    vLLM's is its own, asynchronous by default from 0.14 on, or where its flags say so; a version that the
    data do not say counts as a new one. SGLang's is its own, with its overlapped schedule. TensorRT-LLM's has
    whole prompts, as it cuts prompts only where ``enable_chunked_prefill`` is set.
    """
    one = _one_instance(server)
    if server.prefill:
        _check.count("instances that decode", server.instances - server.prefill)
        # Requests are handed over, so that all tokens count as steps end.
        decodes = replace(one.scheduler, drop_unseen=False)  # type: ignore[type-var]  # one, not by pool
        prefills = _one_instance(replace(server, max_num_seqs=None)).scheduler
        apart = disaggregated(
            prefill=server.prefill * server.prefilling.data_parallel,
            decode=(server.instances - server.prefill) * server.data_parallel,
            scheduler=decodes,  # type: ignore[arg-type]
            prefill_scheduler=replace(prefills, drop_unseen=False),  # type: ignore[type-var, arg-type]
        )
        if server.engine != "trtllm":
            return apart
        first, then = (pick(min=inst.requests, within=pool) for pool in ("prefill", "decode"))
        return replace(apart, on_arrival=first, on_prefilled=then)
    if server.data_parallel > 1:
        return replace(one, on_arrival="round_robin" if server.balance is None else pick(min=inst.requests))
    if server.instances > 1:
        return replace(one, on_arrival=pick(min=0, ties="random"))
    return one


def _one_instance(server: Server) -> Policy:
    """Return the scheduler of an instance, as a policy."""
    if server.engine == "sglang":
        return sglang(
            chunked_prefill_size=server.max_num_batched_tokens or _SGLANG_CHUNK,
            receive_interval=1 if server.prefill else server.receive_interval,
            mixed_chunk=server.mixed_chunk,
            overlap_schedule=True,
        )
    if server.engine == "trtllm":
        tokens, most = _TRTLLM
        return tensorrt_llm(
            max_num_tokens=server.max_num_batched_tokens or tokens,
            max_batch_size=server.max_num_seqs or most,
            batch_wait_timeout_iters=server.batch_wait[0],
            batch_wait_max_tokens_ratio=server.batch_wait[1],
        )
    version = version_key(server.version)[:2]
    seats = server.max_num_seqs
    if seats is None and version and version <= _FEW_SEATS:
        seats = 256
    return vllm(
        version="0.11" if version and version <= (0, 11) else "0.33",
        prefix_caching=server.prefix_caching,
        max_num_batched_tokens=server.max_num_batched_tokens,
        max_num_seqs=seats,
        async_scheduling=decides_ahead(server.version) or server.version in _ASYNCHRONOUS,
    )

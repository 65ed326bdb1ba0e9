"""Flags of the servers of InferenceX, by its public scripts (SemiAnalysisAI/InferenceX, ``benchmarks``).

Its data have no flags. A script of a model, GPU and engine counts for all dates: of those that are named
here, one or two commits were read.
"""

from __future__ import annotations

from typing import NamedTuple

from paceline.model import Model
from paceline.validation.points.point import Engine

__all__ = ["Flags", "deals_out", "fitted_on", "flags_of"]


class Flags(NamedTuple):
    """What a script sets of a server; None, 1 and ``auto``: the engine's defaults.

    Attributes
    ----------
    max_num_batched_tokens
        Tokens of a step: SGLang's ``--chunked-prefill-size``, TensorRT-LLM's ``--max_num_tokens``.
    max_num_seqs
        SGLang's ``--max-running-requests``, TensorRT-LLM's ``--max_batch_size``.
    receive_interval
        SGLang's ``--scheduler-recv-interval``.
    memory
        vLLM's ``--gpu-memory-utilization``, SGLang's ``--mem-fraction-static``, TensorRT-LLM's
        ``free_gpu_memory_fraction``.
    kv_dtype
        ``--kv-cache-dtype``, TensorRT-LLM's ``dtype`` of ``kv_cache_config``.
    """

    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    receive_interval: int = 1
    memory: float | None = None
    kv_dtype: str = "auto"


def flags_of(
    engine: Engine, model: Model, gpu: str, split: tuple[int, bool], load: tuple[int, int], version: str = ""
) -> Flags:
    """Return the flags of a server of so many GPUs, for prompts of a length and requests in flight.

    ``split`` says whether experts are dealt out whole, too.

    Examples
    --------
    >>> deepseek = Model.load("deepseek-r1")
    >>> flags_of("sglang", deepseek, "b200", (8, False), (1024, 64)).receive_interval
    30
    >>> flags_of("trtllm", deepseek, "b200", (8, True), (1024, 4)).max_num_batched_tokens
    1152
    >>> flags_of("trtllm", deepseek, "h200", (8, True), (8192, 64)).max_num_batched_tokens
    8320
    >>> flags_of("vllm", Model.load("gpt-oss-120b"), "b200", (8, False), (1024, 64)).kv_dtype
    'fp8'
    """
    prompt, concurrency = load
    deepseek, four_bits = model.name.startswith("deepseek"), model.weight_dtype == "nvfp4"
    if engine == "sglang" and deepseek:
        return _sglang(gpu, 0 if four_bits else split[0], concurrency)
    if engine == "trtllm" and deepseek:  # dsr1_fp8_h200_trt.sh, dsr1_fp8_b200_trt.sh, dsr1_fp4_b200_trt.sh
        tokens = (concurrency + prompt + 64 + 63) // 64 * 64
        if gpu == "h200" or not split[1]:  # dsr1_fp8_b200_trt_slurm.sh of 2025 deals out, without a least
            tokens = max(8192, tokens)
        return Flags(max_num_batched_tokens=tokens, memory=0.75 if gpu == "h200" else 0.8, kv_dtype="fp8")
    if engine == "trtllm":  # gptoss_fp4_h200_trt.sh, gptoss_fp4_b200_trt.sh
        kv_dtype = "auto" if gpu == "h200" else "fp8"
        return Flags(max_num_batched_tokens=20000, max_num_seqs=concurrency, memory=0.85, kv_dtype=kv_dtype)
    if engine == "vllm" and model.name == "minimax-m2.5":
        return _minimax(gpu, version, prompt, four_bits=four_bits)
    if engine == "vllm" and gpu == "b200" and model.name == "gpt-oss-120b":  # gptoss_fp4_b200.sh
        return Flags(max_num_batched_tokens=8192, max_num_seqs=512, kv_dtype="fp8")
    return Flags()


def _sglang(gpu: str, tensor: int, concurrency: int) -> Flags:
    """Return the flags of DeepSeek under SGLang; in NVFP4 with no GPUs, as they do not depend on these."""
    if gpu == "h200":  # dsr1_fp8_h200.sh
        return Flags(max_num_batched_tokens=32768, memory=0.82)
    if tensor == 4 or gpu.startswith("gb"):  # dsr1_fp8_b200.sh, srt-slurm's low-latency.yaml of GB200
        return Flags(max_num_batched_tokens=8192, receive_interval=10, memory=0.95, kv_dtype="fp8")
    interval = 30 if concurrency >= 16 else 10
    if not tensor:  # dsr1_fp4_b200.sh, of 2025 as of 2026
        return Flags(max_num_batched_tokens=16384, receive_interval=interval, memory=0.85, kv_dtype="fp8")
    return Flags(max_num_batched_tokens=32768, receive_interval=interval, memory=0.82, kv_dtype="fp8")


def _minimax(gpu: str, version: str, prompt: int, *, four_bits: bool) -> Flags:
    """Return the flags of MiniMax-M2.5 under vLLM: minimaxm2.5_fp8_b200.sh and those beside it.

    The script for B200 changed with vLLM 0.19: it has had 8-bit keys and values since, as have those for B300
    and for NVFP4 (whose checkpoint asks for them, too).
    """
    if gpu == "b300" or (gpu == "b200" and (four_bits or version.startswith("0.19"))):
        return Flags(max_num_batched_tokens=2 * prompt, memory=0.9, kv_dtype="fp8")
    return Flags(memory=0.9 if gpu.startswith("h100") else 0.95)


def deals_out(engine: Engine, model: str, gpu: str, version: str) -> bool:
    """Whether a script has ranks hold whole experts where the data have each of them split.

    minimaxm2.5_fp8_h200.sh, and minimaxm2.5_fp8_b200.sh before vLLM 0.19, set ``--enable-expert-parallel``
    for one rank of experts, too.

    Examples
    --------
    >>> [deals_out("vllm", "minimax-m2.5", "b200", version) for version in ("0.17.0", "0.19.0")]
    [True, False]
    """
    early = gpu == "b200" and version[:4] in ("0.16", "0.17", "0.18")
    return engine == "vllm" and model == "minimax-m2.5" and (gpu == "h200" or early)


def fitted_on(engine: Engine, version: str, model: str, gpu: str) -> str:
    """Return what was fitted to InferenceX's points of a server; empty if nothing was.

    Examples
    --------
    >>> fitted_on("trtllm", "", "deepseek-r1", "b200"), fitted_on("trtllm", "1.2.0rc2", "deepseek-r1", "b200")
    ('front end', '')
    """
    if engine == "vllm":
        return "rate of experts" if model.startswith("gpt-oss") and gpu in ("h100-sxm", "h200") else ""
    return "" if version else "front end"

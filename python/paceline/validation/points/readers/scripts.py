"""Flags of the servers of InferenceX, by its public scripts (SemiAnalysisAI/InferenceX, ``benchmarks``).

Its data have no flags. A script of a model, GPU and engine counts for all dates: of those that are named
here, one or two commits were read.
"""

from __future__ import annotations

from typing import NamedTuple

from paceline.validation.points.point import Engine

__all__ = ["Flags", "fitted_on", "flags_of"]


class Flags(NamedTuple):
    """What a script sets of a scheduler; None and 1: the engine's defaults.

    Attributes
    ----------
    max_num_batched_tokens
        Tokens of a step: SGLang's ``--chunked-prefill-size``, TensorRT-LLM's ``--max_num_tokens``.
    max_num_seqs
        TensorRT-LLM's ``--max_batch_size``.
    receive_interval
        SGLang's ``--scheduler-recv-interval``.
    """

    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    receive_interval: int = 1


def flags_of(engine: Engine, model: str, gpu: str, tensor: int, load: tuple[int, int]) -> Flags:
    """Return the flags of a server of ``tensor`` GPUs, for prompts of a length and requests in flight.

    Examples
    --------
    >>> flags_of("sglang", "deepseek-r1", "b200", 8, (1024, 64)).receive_interval
    30
    >>> flags_of("trtllm", "deepseek-r1", "h200", 8, (8192, 64)).max_num_batched_tokens
    8320
    """
    prompt, concurrency = load
    mixture = model.startswith("deepseek")
    if engine == "sglang" and mixture:
        if gpu == "h200":  # dsr1_fp8_h200.sh
            return Flags(max_num_batched_tokens=32768)
        if tensor == 4:  # dsr1_fp8_b200.sh
            return Flags(max_num_batched_tokens=8192, receive_interval=10)
        return Flags(max_num_batched_tokens=32768, receive_interval=30 if concurrency >= 16 else 10)
    if engine == "trtllm" and mixture:  # dsr1_fp8_h200_trt.sh, dsr1_fp8_b200_trt.sh
        return Flags(max_num_batched_tokens=max(8192, (concurrency + prompt + 64 + 63) // 64 * 64))
    if engine == "trtllm":  # gptoss_fp4_h200_trt.sh, gptoss_fp4_b200_trt.sh
        return Flags(max_num_batched_tokens=20000, max_num_seqs=concurrency)
    return Flags()


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

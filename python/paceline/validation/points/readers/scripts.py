"""Flags of the servers of InferenceX, by its public scripts (SemiAnalysisAI/InferenceX, ``benchmarks``).

Its data have no flags. A script of a model, GPU and engine counts for all dates: of those that are named
here, one or two commits were read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from paceline.model import Model
from paceline.validation.points.point import Engine

__all__ = [
    "Flags",
    "Run",
    "as_computed",
    "deals_out",
    "fitted_on",
    "flags_of",
    "ranks_of",
    "settled",
    "version_of",
]

#: TensorRT-LLM of DeepSeek in 2025 (``.github/configs/nvidia-master.yaml``, of all GPUs).
_TRTLLM_2025 = "1.1.0rc2.post2"
#: That of Dynamo's image of 2025 (``tensorrtllm-runtime:0.5.1-rc0``), by its support matrix.
_DYNAMO_2025 = "1.1.0rc5"


#: Seconds that the first requests of a run of InferenceX wait more than later ones, where weights are in FP8
#: or NVFP4. Where its data have both, the replay was 20% short in the mean TTFT of 87 points of SGLang, and
#: 4% in the median; 25% and 2% in 64 of DeepSeek under TensorRT-LLM; and in neither of gpt-oss-120b. Fitted
#: to the mean: 0.2 to 0.4 s by engine. Runs since February 2026, whose client warms the server up, ask for as
#: much. So do those with prefill apart under SGLang, to which nothing was fitted; TensorRT-LLM's do not.
_COLD_S = 0.3
#: The same under TensorRT-LLM on H200 before the client sent twice the requests in flight as a warm-up (pull
#: request 480 of 17 January 2026, to be merged ten days later): 1 to 1.8 s with four requests in flight, 3 to
#: 6 with 64. Later runs wait 0.2 s.
_COLD_H200_S, _WARMED_UP = 2.0, "2026-01-27"
#: FLOP/s of FP8 matrices in SGLang on Blackwell. Scripts and recipes turn DeepGEMM off and FlashInfer's
#: kernel on (``SGL_ENABLE_JIT_DEEPGEMM=false``, ``SGLANG_ENABLE_FLASHINFER_GEMM=true``), and the tables are
#: of DeepGEMM. SGLang's pull request 13528 measured both on Blackwell: 24,576 x 7,168 weights take FlashInfer
#: 826 and 1,633 us for 1,024 and 2,048 tokens, which are 437 and 442 TFLOP/s, and DeepGEMM 146 and 260 us.
_FLASHINFER_FLOPS = 440e12
#: From this day on rows have how experts and attention are split.
_SPLITS_RECORDED = "2025-11-13"
#: Seconds of a layer's experts for a token in DeepGEMM's of TensorRT-LLM 1.1.0rc2, which the tables of
#: 1.3.0rc20 have faster. Fitted to TTFT of half of 28 points of prompts of 8,192 tokens on eight B200s.
_EARLY_DEEPGEMM_S = 0.4e-6
#: Seconds of a step of DeepSeek in FP8 under TensorRT-LLM 1.1 that neither its host nor the tables of 1.3
#: have: on H200 and on B200 alike, and in NVFP4 none. Kernels that quantise activations before each matrix
#: would be so many.
_EARLY_FP8_STEP_S = 2.5e-3
#: ``timeout_iters`` and ``batching_wait_iters`` of ``attention_dp_config`` in InferenceX's scripts for
#: DeepSeek under TensorRT-LLM, and TensorRT-LLM's defaults, which those for gpt-oss leave.
_BALANCE, _DEFAULT_BALANCE = (60, 0), (50, 10)
_BLACKWELL = ("b200", "b300", "gb200", "gb300")


class Run(NamedTuple):
    """What is known of a run before its script.

    Attributes
    ----------
    engine, model, gpu
        What served.
    gpus, dealt
        How many GPUs an instance has, and whether experts are dealt out over them.
    prompt, output, concurrency
        The nominal lengths, and the requests in flight.
    version
        The engine's, empty if the data do not say.
    date
        When it was measured, as ``2025-11-13``; empty if the data do not say.
    scripted
        Whether these scripts ran it: not NVIDIA's sweeps, nor Dynamo's recipes of prefill apart.
    ranks
        Ranks of attention.
    """

    engine: Engine
    model: Model
    gpu: str
    gpus: int = 1
    dealt: bool = False
    prompt: int = 1024
    output: int = 1024
    concurrency: int = 1
    version: str = ""
    date: str = ""
    scripted: bool = True
    ranks: int = 1

    @property
    def deepseek(self) -> bool:
        """Whether the model is DeepSeek's."""
        return self.model.name.startswith("deepseek")

    @property
    def four_bits(self) -> bool:
        """Whether the weights are in NVFP4."""
        return self.model.weight_dtype == "nvfp4"

    @property
    def early(self) -> bool:
        """Whether a script of 2025 ran it that differs from later ones: TensorRT-LLM's of DeepSeek."""
        known = self.engine == "trtllm" and self.deepseek and self.gpu in ("h200", "b200")
        return known and self.scripted and (self.version.startswith("1.1.") or "2025" <= self.date < "2026")


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
    mixed_chunk
        SGLang's ``--enable-mixed-chunk``.
    memory
        vLLM's ``--gpu-memory-utilization``, SGLang's ``--mem-fraction-static``, TensorRT-LLM's
        ``free_gpu_memory_fraction``.
    kv_dtype
        ``--kv-cache-dtype``, TensorRT-LLM's ``dtype`` of ``kv_cache_config``.
    moe_backend
        TensorRT-LLM's ``backend`` of ``moe_config``; empty: not known.
    batch_wait
        TensorRT-LLM's ``batch_wait_timeout_iters`` and ``batch_wait_max_tokens_ratio``.
    balance
        Its ``timeout_iters`` and ``batching_wait_iters`` of ranks of attention; None: their prompts do not
        wait for each other.
    prompt_graphs
        Whether prompts run in CUDA graphs: TensorRT-LLM's ``enable_piecewise_cuda_graph``.
    matrix_flops
        What ``SGLANG_ENABLE_FLASHINFER_GEMM`` makes of FP8 matrices. See :data:`_FLASHINFER_FLOPS`.
    expert_token_s
        No flag: what experts take for a token. See :data:`_EARLY_DEEPGEMM_S`.
    step_s
        No flag: what a step takes besides. See :data:`_EARLY_FP8_STEP_S`.
    cold_s
        No flag: what the first requests of a run wait until kernels are there. See :data:`_COLD_S`.
    """

    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    receive_interval: int = 1
    mixed_chunk: bool = False
    memory: float | None = None
    kv_dtype: str = "auto"
    moe_backend: str = ""
    batch_wait: tuple[int, float] = (0, 0.0)
    balance: tuple[int, int] | None = None
    prompt_graphs: bool = False
    matrix_flops: float = 0.0
    expert_token_s: float = 0.0
    step_s: float = 0.0
    cold_s: float = 0.0


def as_computed(run: Run) -> Model:
    """Return the model as a script has it computed: in TF32, which counts as 16 bits, where it says so.

    Those of MiniMax-M2.5 for Blackwell set vLLM's ``VLLM_FLOAT32_MATMUL_PRECISION=high`` since pull requests
    1069, 1106 and 1107 of 17 to 21 April 2026; that for FP8 on B200, which was not read, counts as one of
    them.

    Examples
    --------
    >>> run = Run("vllm", Model.load("minimax-m2.5"), "b300", date="2026-04-17")
    >>> [as_computed(run._replace(date=date)).experts.router_dtype for date in (run.date, "2026-04-21")]
    ['float32', 'auto']
    """
    experts = run.model.experts
    high = run.scripted and run.gpu in ("b200", "b300") and run.date > "2026-04-17"
    if experts is None or run.engine != "vllm" or not high:
        return run.model
    return replace(run.model, experts=replace(experts, router_dtype="auto"))


def version_of(run: Run) -> str:
    """Return the engine's version, by InferenceX's configuration of its date where the data do not say it.

    Examples
    --------
    >>> run = Run("trtllm", Model.load("deepseek-r1"), "h200", date="2025-11-13")
    >>> version_of(run), version_of(run._replace(date="2026-05-18"))
    ('1.1.0rc2.post2', '')
    """
    apart = run.engine == "trtllm" and not run.scripted and "2025" <= run.date < "2026"
    return run.version or (_DYNAMO_2025 if apart else _TRTLLM_2025 if run.early else "")


def flags_of(run: Run) -> Flags:
    """Return the flags of a server.

    Examples
    --------
    >>> deepseek = Model.load("deepseek-r1")
    >>> flags_of(Run("sglang", deepseek, "b200", 8, concurrency=64)).receive_interval
    30
    >>> flags_of(Run("trtllm", deepseek, "b200", 8, True, concurrency=4, date="2025-11-13"))[0]
    1152
    >>> flags_of(Run("trtllm", deepseek, "h200", 8, True, 8192, concurrency=64))[0]
    8320
    >>> flags_of(Run("trtllm", deepseek, "b200", 8, concurrency=64)).batch_wait
    (40, 0.8)
    >>> flags_of(Run("vllm", Model.load("gpt-oss-120b"), "b200", 8)).kv_dtype
    'fp8'
    >>> flags_of(Run("vllm", Model.load("minimax-m2.5"), "b200", 8)).cold_s
    0.3
    """
    flags, balance = _by_script(run)._replace(cold_s=_cold_s(run)), _balance(run)
    # PyExecutor has prompts wait for a batch only without ranks of attention.
    return flags if balance is None else flags._replace(balance=balance, batch_wait=(0, 0.0))


def _balance(run: Run) -> tuple[int, int] | None:
    """Return for how many steps prompts of TensorRT-LLM's ranks of attention wait for each other."""
    if run.engine != "trtllm" or run.ranks == 1 or not run.scripted:
        return None
    return _BALANCE if run.deepseek else _DEFAULT_BALANCE


def _cold_s(run: Run) -> float:
    """Return what the first requests wait until kernels are there."""
    known = run.scripted or run.engine == "sglang"
    if not known or run.model.weight_dtype not in ("fp8", "nvfp4"):
        return 0.0
    slow = (run.engine, run.gpu) == ("trtllm", "h200") and run.date < _WARMED_UP
    return _COLD_H200_S if slow else _COLD_S


def _by_script(run: Run) -> Flags:
    engine, gpu = run.engine, run.gpu
    if engine == "sglang" and run.deepseek:
        flags = _sglang(run) if run.scripted else _sglang_apart(run)
        slow = gpu in _BLACKWELL and run.model.weight_dtype == "fp8"
        return flags._replace(matrix_flops=_FLASHINFER_FLOPS) if slow else flags
    if engine == "trtllm" and run.deepseek:
        return _trtllm(run)
    if engine == "trtllm":  # gptoss_fp4_h200_trt.sh, gptoss_fp4_b200_trt.sh
        flags = Flags(max_num_batched_tokens=20000, max_num_seqs=run.concurrency, memory=0.85)
        return flags._replace(moe_backend="TRITON") if gpu == "h200" else flags._replace(kv_dtype="fp8")
    if engine == "vllm" and run.model.name == "minimax-m2.5":
        return _minimax(run)
    if engine == "vllm" and gpu == "b200" and run.model.name == "gpt-oss-120b":  # gptoss_fp4_b200.sh
        return Flags(max_num_batched_tokens=8192, max_num_seqs=512, kv_dtype="fp8")
    return Flags()


def _trtllm(run: Run) -> Flags:
    """Return the flags of DeepSeek under TensorRT-LLM: dsr1_fp8_b200_trt.sh and those beside it.

    Those of 2025 (``dsr1_fp8_b200_trt_slurm.sh``) have no least ``--max_num_tokens``, so that a step has one
    prompt of 1,024 tokens. Since 2026 it is 8,192, prompts of FP8 on B200 wait for a batch, and some run in
    graphs. Of other GPUs than H200 and B200, and of prefill apart, no script was read; the latter has the
    engine's own least, 8,192, where no recipe says more: an instance that took one prompt a step would fall
    behind those that decode.
    """
    tokens = (run.concurrency + run.prompt + 64 + 63) // 64 * 64
    memory = 0.75 if run.gpu == "h200" else 0.8
    if not run.scripted or run.gpu not in ("h200", "b200"):
        one = run.scripted and run.dealt and run.gpu != "h200"
        tokens = tokens if one else max(8192, tokens)
        return Flags(max_num_batched_tokens=tokens, memory=memory, kv_dtype="fp8")
    if run.early:
        # Of NVFP4's two, CUTLASS and TRTLLM, the tables of the former are slower than either ran.
        backend = "CUTLASS" if run.gpu == "h200" else "" if run.four_bits else "DEEPGEMM"
        slow = _EARLY_DEEPGEMM_S if backend == "DEEPGEMM" else 0.0
        flags = Flags(max_num_batched_tokens=tokens, memory=memory, kv_dtype="fp8", moe_backend=backend)
        step_s = 0.0 if run.four_bits else _EARLY_FP8_STEP_S
        return flags._replace(expert_token_s=slow, step_s=step_s)
    tokens = max(8192, tokens)
    flags = Flags(max_num_batched_tokens=tokens, memory=memory, kv_dtype="fp8", moe_backend="CUTLASS")
    if run.gpu == "h200":
        return flags
    lengths, count = (run.prompt, run.output), run.concurrency
    flags = flags._replace(moe_backend="TRTLLM")
    if run.four_bits:
        return flags._replace(prompt_graphs=lengths == (1024, 1024) and run.gpus == 8 and run.dealt)
    least = {(1024, 1024): 64, (1024, 8192): 128, (8192, 1024): 64}.get(lengths)
    waits = lengths == (1024, 1024) and count >= 64
    if lengths == (1024, 8192) and count >= 256:
        return flags._replace(moe_backend="DEEPGEMM", memory=0.7)
    return flags._replace(
        prompt_graphs=least is not None and count >= least,
        batch_wait=(40, 0.8) if waits else (0, 0.0),
        memory=0.75 if lengths == (8192, 1024) and run.gpus == 4 else memory,
    )


def _sglang(run: Run) -> Flags:
    """Return the flags of DeepSeek under SGLang; in NVFP4 they do not depend on the GPUs."""
    if run.gpu == "h200":  # dsr1_fp8_h200.sh
        return Flags(max_num_batched_tokens=32768, memory=0.82)
    if run.gpus == 4 and not run.four_bits:  # dsr1_fp8_b200.sh
        return Flags(max_num_batched_tokens=8192, receive_interval=10, memory=0.95, kv_dtype="fp8")
    interval = 30 if run.concurrency >= 16 else 10
    if run.four_bits:  # dsr1_fp4_b200.sh, of 2025 as of 2026
        return Flags(max_num_batched_tokens=16384, receive_interval=interval, memory=0.85, kv_dtype="fp8")
    return Flags(max_num_batched_tokens=32768, receive_interval=interval, memory=0.82, kv_dtype="fp8")


def _sglang_apart(run: Run) -> Flags:
    """Return the flags of instances apart: srt-slurm's b200-fp4/1k1k-stp.yaml and b200-fp8/1k1k-stp.yaml.

    Of GB200 and GB300 they are those of gb200-fp4/1k1k/low-latency.yaml, of H200 the script's of one
    instance. A chunk would hold several prompts. But the last first token of the burst is there after as
    many steps as there are prompts: by its ninety-ninth percentile, 43 to 74 ms for each of 920 tokens on
    B200, GB200 and GB300. So a step has the tokens of one.
    """
    chunk = min(8192, run.prompt)
    if run.gpu.startswith("gb"):
        return Flags(max_num_batched_tokens=chunk, receive_interval=10, memory=0.95, kv_dtype="fp8")
    if run.gpu == "h200":
        return Flags(max_num_batched_tokens=chunk, memory=0.82)
    return Flags(max_num_batched_tokens=chunk, memory=0.85, kv_dtype="fp8")


def _minimax(run: Run) -> Flags:
    """Return the flags of MiniMax-M2.5 under vLLM: minimaxm2.5_fp8_b200.sh and those beside it.

    The script for B200 changed with vLLM 0.19: it has had 8-bit keys and values since, as have those for B300
    and for NVFP4 (whose checkpoint asks for them, too).
    """
    gpu = run.gpu
    if gpu == "b300" or (gpu == "b200" and (run.four_bits or run.version.startswith("0.19"))):
        return Flags(max_num_batched_tokens=2 * run.prompt, memory=0.9, kv_dtype="fp8")
    return Flags(memory=0.9 if gpu.startswith("h100") else 0.95)


def deals_out(run: Run) -> bool:
    """Whether a script has ranks hold whole experts where the data have each of them split.

    minimaxm2.5_fp8_h200.sh, and minimaxm2.5_fp8_b200.sh before vLLM 0.19, set ``--enable-expert-parallel``
    for one rank of experts, too. Rows of 2 to 10 November 2025 do not have ``--ep_size`` of TensorRT-LLM and
    SGLang. It is ``--tp_size`` for DeepSeek in FP8 by the configuration ("For all sequence lengths, EP=TP"),
    in NVFP4 under SGLang by dsr1_fp4_b200_docker.sh (``--enable-ep-moe``), under TensorRT-LLM by lengths and
    load (dsr1_fp4_b200_trt_slurm.sh), and for gpt-oss-120b on H200, whose later rows have it and the same
    TPOT to 1%.

    Examples
    --------
    >>> run = Run("vllm", Model.load("minimax-m2.5"), "b200")
    >>> [deals_out(run._replace(version=version)) for version in ("0.17.0", "0.19.0")]
    [True, False]
    """
    if run.model.name == "minimax-m2.5" and run.engine == "vllm":
        return run.gpu == "h200" or (run.gpu == "b200" and run.version[:4] in ("0.16", "0.17", "0.18"))
    if not run.scripted or run.gpus == 1:
        return False
    if run.engine == "trtllm" and run.model.name == "gpt-oss-120b":
        return run.gpu == "h200"
    if run.deepseek and run.four_bits:
        return "2025" <= run.date < _SPLITS_RECORDED and (run.engine == "sglang" or _trtllm_dealt(run))
    return run.early


def ranks_of(run: Run) -> bool:
    """Whether each GPU is a rank of attention where the data do not say so.

    TensorRT-LLM's rows of DeepSeek in NVFP4 of 2 November 2025 do not; those of the 13th do, of the same
    loads and with the same TPOT to 1%.
    """
    most = {(8192, 1024): 64, (1024, 1024): 256}.get((run.prompt, run.output))
    unsaid = run.engine == "trtllm" and run.early and run.four_bits and run.date < _SPLITS_RECORDED
    return unsaid and most is not None and run.concurrency >= most


def settled(run: Run) -> Run:
    """Return a run with the split that its script has where the data do not say it."""
    if run.ranks == 1 and ranks_of(run):
        return run._replace(ranks=run.gpus, dealt=True)
    return run._replace(dealt=run.dealt or deals_out(run))


def _trtllm_dealt(run: Run) -> bool:
    least = {(1024, 1024): 16, (1024, 8192): 32, (8192, 1024): 0}.get((run.prompt, run.output))
    return run.early and least is not None and run.concurrency >= least


def fitted_on(engine: Engine, version: str, model: str, gpu: str) -> str:
    """Return what was fitted to InferenceX's points of a server; empty if nothing was.

    Examples
    --------
    >>> [fitted_on("trtllm", version, "deepseek-r1", "b200") for version in ("", "1.2.0rc2")]
    ['front end, launches', 'launches']
    >>> fitted_on("trtllm", "1.2.0rc2", "gpt-oss-120b", "b200")
    ''
    """
    fitted = []
    if engine == "vllm" and model.startswith("gpt-oss") and gpu in ("h100-sxm", "h200"):
        fitted.append("rate of experts")
    if not version or (engine == "vllm" and model.startswith(("gpt-oss", "minimax"))):
        fitted.append("front end")
    triton = engine == "trtllm" and model.startswith("gpt-oss") and gpu == "h200"
    if triton or (engine != "vllm" and model.startswith("deepseek")):
        fitted.append("launches")
    return ", ".join(fitted)

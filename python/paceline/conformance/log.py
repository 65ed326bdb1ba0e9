"""Reading decision logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from paceline._arguments import typed, typed_fields
from paceline.errors import TraceError
from paceline.limits import Limits
from paceline.trace.opening import content
from paceline.trace.schema import TOKENS_LIMIT

__all__ = ["DecisionLog", "read_log"]

_Count = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
_Tokens = Annotated[int, msgspec.Meta(ge=1, lt=TOKENS_LIMIT)]
# The engine's clock counts beyond 2**63, and a log's ticks are nanoseconds: this is 146 years.
_Nanoseconds = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
# The bound of a cost, so that no step can exceed the clock: ten seconds.
_Cost = Annotated[int, msgspec.Meta(ge=0, le=10**10)]
# Bounds of real engines; the memory of a replay grows with both.
_BlockTokens = Annotated[int, msgspec.Meta(ge=1, le=2**16)]
_Blocks = Annotated[int, msgspec.Meta(ge=2, le=2**24)]
_Id = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
# The most drafts that the engine takes.
_Drafts = Annotated[int, msgspec.Meta(ge=0, le=64)]
_Priority = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class _Engine(msgspec.Struct):
    block_size: _BlockTokens
    num_blocks: _Blocks
    max_num_batched_tokens: _Count
    max_num_seqs: _Count
    max_model_len: _Count


class _Vllm(_Engine):
    policy: Literal["fcfs", "priority"]
    prefix_caching: bool
    long_prefill_token_threshold: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    reserve_full_prompt: bool = True
    watermark: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0


class _Spec(msgspec.Struct):
    method: Literal["ngram", "eagle", "draft_model"]
    k: _Drafts
    accept: Annotated[list[_Drafts], msgspec.Meta(min_length=1)]
    lookahead_slots: _Drafts
    draft_input_slots: _Drafts
    hash_lookahead: Literal[0, 1]
    drops_last_block: bool
    drafts: Annotated[list[_Drafts], msgspec.Meta(min_length=1)] | None = None
    per_batch: list[tuple[_Count, _Count, _Drafts]] = []
    drop_block: bool = False


class _VllmSpec(_Vllm, kw_only=True):
    spec: _Spec | None
    is_async: bool = msgspec.field(default=False, name="async")


class _VllmPipeline(_Vllm, kw_only=True):
    batches: Annotated[int, msgspec.Meta(ge=2, le=64)]


class _Offload(msgspec.Struct):
    cpu_chunks: _Blocks
    policy: Literal["lru", "arc"]
    blocks_per_chunk: Annotated[int, msgspec.Meta(ge=1, le=2**16)]
    prompt_only: bool
    store_threshold: Annotated[int, msgspec.Meta(ge=0, le=2**16)]
    sync_load_tokens: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    poll: Literal["begin", "end"]


class _VllmOffload(_Vllm, kw_only=True):
    offload: _Offload


class _VllmV0(_Engine):
    num_cpu_blocks: Annotated[int, msgspec.Meta(ge=0, le=2**24)]
    chunked_prefill: bool
    preemption: Literal["recompute", "swap"]


class _SglangDrafts(msgspec.Struct):
    tokens: Annotated[int, msgspec.Meta(ge=1, le=64)]
    accepted: Annotated[list[_Drafts], msgspec.Meta(min_length=1)] | None = None
    stride: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    yields: Annotated[list[Annotated[int, msgspec.Meta(ge=1, le=65)]], msgspec.Meta(min_length=1)] | None = (
        None
    )


class _Sglang(msgspec.Struct):
    page_size: _BlockTokens
    num_tokens: _Blocks
    chunked_prefill_size: _Count
    max_running_requests: _Count
    max_model_len: _Count
    schedule_policy: Literal["fcfs", "lof", "lpm", "dfs-weight"]
    radix_cache: bool
    mixed_chunk: bool
    overlap: bool
    ignore_eos: bool
    conservativeness: Annotated[float, msgspec.Meta(ge=0, le=1)]
    clip: _Count = 4096
    priorities: Literal["highest", "lowest"] | None = None
    speculation: _SglangDrafts | None = None


class _Storage(msgspec.Struct):
    prefetch_policy: Literal["best_effort", "wait_complete", "timeout"]
    prefetch_threshold: Annotated[int, msgspec.Meta(ge=1, le=2**24)]
    prefetch_timeout_base_ns: _Cost = 0
    prefetch_timeout_per_ki_token_ns: _Cost = 0
    pages: Annotated[int, msgspec.Meta(ge=1, le=2**24)] | None = None


class _Hicache(msgspec.Struct):
    host_pages: Annotated[int, msgspec.Meta(ge=1, le=2**24)]
    write_policy: Literal["write_through", "write_through_selective", "write_back"]
    layers: Annotated[int, msgspec.Meta(ge=1, le=2**16)]
    storage: _Storage | None = None


class _SglangApart(_Sglang, kw_only=True):
    disaggregation: Literal["prefill", "decode"]
    transfer_ns: Annotated[int, msgspec.Meta(ge=1, le=10**10)]
    reserved_tokens: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0


class _SglangDecode(_Sglang, kw_only=True):
    reserved_tokens: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0


class _SglangPair(msgspec.Struct):
    prefill: _Sglang
    decode: _SglangDecode
    transfer_ns: Annotated[int, msgspec.Meta(ge=1, le=10**10)]
    decodes: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1


class _SglangHicache(_Sglang, kw_only=True):
    hicache: _Hicache


class _Layered(_Engine):
    mode: Literal["orca", "chunked-prefill", "layered-prefill"]
    num_layers: _Count
    num_stages: _Count


class _Decisions(msgspec.Struct):
    steps: list[list[Any]]
    first_token_ns: list[int]
    finish_ns: list[int]
    jobs: list[list[Any]] = []


class _Costs(msgspec.Struct):
    step_ns: _Cost
    token_ns: _Cost
    kv_token_ns: _Cost = 0


class _SwapCosts(_Costs, kw_only=True):
    swap_block_ns: _Cost


class _CopyCosts(msgspec.Struct):
    fixed_ns: _Cost
    block_ns: _Cost


class _OffloadCosts(_Costs, kw_only=True):
    store: _CopyCosts
    load: _CopyCosts


class _HicacheCosts(_OffloadCosts, kw_only=True):
    read: _CopyCosts | None = None
    write: _CopyCosts | None = None


class _File(msgspec.Struct):
    engine: dict[str, Any]
    cost: dict[str, _Cost | dict[str, _Cost]]
    requests: list[list[Any]]
    log: _Decisions


_SETTINGS: Final[dict[str, type[_Engine | _Sglang | _SglangPair]]] = {
    "vllm": _Vllm,
    "vllm-spec": _VllmSpec,
    "vllm-offload": _VllmOffload,
    "vllm-pipeline": _VllmPipeline,
    "vllm-v0": _VllmV0,
    "layered": _Layered,
    "sglang": _Sglang,
    "sglang-radix": _Sglang,
    "sglang-hicache": _SglangHicache,
    "sglang-apart": _SglangApart,
    "sglang-pair": _SglangPair,
}
_SHARED: Final = tuple[_Nanoseconds, _Tokens, _Tokens, _Priority, list[_Id]]
_PLAIN: Final = tuple[_Nanoseconds, _Tokens, _Tokens]
_Session = Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]
_IN_TREE: Final = tuple[_Nanoseconds, _Tokens, _Tokens, _Session, list[_Id]]
_REQUESTS: Final[dict[str, tuple[Any, int]]] = {
    "vllm": (_SHARED, 5),
    "vllm-spec": (_SHARED, 5),
    "vllm-offload": (_SHARED, 5),
    "vllm-pipeline": (_SHARED, 5),
    "vllm-v0": (_PLAIN, 3),
    "layered": (_PLAIN, 3),
    "sglang": (_PLAIN, 3),
    "sglang-radix": (_IN_TREE, 5),
    "sglang-hicache": (_IN_TREE, 5),
    "sglang-apart": (_IN_TREE, 5),
    "sglang-pair": (_IN_TREE, 5),
}
_WITH_PRIORITIES: Final[dict[str, Any]] = {
    "sglang": tuple[_Nanoseconds, _Tokens, _Tokens, _Priority],
    "sglang-radix": tuple[_Nanoseconds, _Tokens, _Tokens, _Session, list[_Id], _Priority],
}
_STEP_LENGTHS: Final = {
    "vllm": 4,
    "vllm-spec": 4,
    "vllm-offload": 15,
    "vllm-pipeline": 5,
    "vllm-v0": 6,
    "layered": 7,
    "sglang": 4,
    "sglang-radix": 4,
    "sglang-hicache": 6,
    "sglang-apart": 4,
    "sglang-pair": 6,
}
_COSTS: Final[dict[str, type[_Costs]]] = {
    "vllm-v0": _SwapCosts,
    "vllm-offload": _OffloadCosts,
    "sglang-hicache": _HicacheCosts,
}


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class DecisionLog:
    """A workload, and the decisions of a real scheduler on it.

    Attributes
    ----------
    path
        The file.
    engine
        The real engine's settings, as it names them.
    cost
        The cost of a step, in whole nanoseconds.
    requests
        A list for each request: arrival in nanoseconds, prompt tokens, output
        tokens, and further values of its kind of log.
    steps
        A list for each step.
    first_token_ns, finish_ns
        By request.
    jobs
        A list for each copy to and from a tier of KV.
    """

    path: Path
    engine: dict[str, Any]
    cost: dict[str, Any]
    requests: list[list[Any]]
    steps: list[list[Any]]
    first_token_ns: list[int]
    finish_ns: list[int]
    jobs: list[list[Any]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The engine, ``vllm``, ``sglang`` or ``layered``, with a mode as in ``sglang-radix``."""
        if "prefill" in self.engine:
            return "sglang-pair"
        if "chunked_prefill_size" in self.engine:
            if "disaggregation" in self.engine:
                return "sglang-apart"
            if "hicache" in self.engine:
                return "sglang-hicache"
            return "sglang-radix" if self.engine.get("radix_cache") else "sglang"
        if "mode" in self.engine:
            return "layered"
        if "offload" in self.engine:
            return "vllm-offload"
        if "spec" in self.engine:
            return "vllm-spec"
        if "batches" in self.engine:
            return "vllm-pipeline"
        return "vllm-v0" if "num_cpu_blocks" in self.engine else "vllm"

    @property
    def output_tokens(self) -> list[int]:
        """Output tokens by request: of vllm-spec, no more than the longest sequence has room for."""
        if self.kind != "vllm-spec":
            return [request[2] for request in self.requests]
        most = self.engine["max_model_len"]
        return [min(request[2], most - request[1]) for request in self.requests]


@typed()
def read_log(path: Path | str) -> DecisionLog:
    """Read a decision log, plain JSON, gzip or zstd.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    DecisionLog
        Its content.

    Raises
    ------
    TraceError
        If it is not a decision log.
    """
    path = Path(path)
    try:
        file = msgspec.json.decode(content(path), type=_File)
        log = DecisionLog(
            path=path,
            engine=file.engine,
            cost=file.cost,
            requests=file.requests,
            steps=file.log.steps,
            first_token_ns=file.log.first_token_ns,
            finish_ns=file.log.finish_ns,
            jobs=file.log.jobs,
        )
        msgspec.convert(log.engine, _SETTINGS[log.kind])
        msgspec.convert(log.cost, _COSTS.get(log.kind, _Costs))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error) or "nested too deeply"
        raise TraceError(f"{path}: not a decision log: {reason[0].lower()}{reason[1:]}") from error
    _check_rows(log)
    return log


def _check_rows(log: DecisionLog) -> None:
    """Refuse a request or a step without the values of its kind of log."""
    kind, length = _REQUESTS[log.kind]
    if log.engine.get("priorities") is not None:
        kind, length = _WITH_PRIORITIES.get(log.kind, kind), length + 1
    for at, request in enumerate(log.requests):
        try:
            msgspec.convert(request[:length], kind)
        except msgspec.ValidationError as error:
            was = repr(request)[:80]
            raise TraceError(f"{log.path}: request {at}: {_lowered(error)}, was {was}") from error
    # The decisions of every step are held in memory, about 64 bytes for a token's.
    limits, tokens = Limits.current(), sum(request[1] + request[2] for request in log.requests)
    if tokens * 16 > limits.values:
        over = limits.over("values", f"{tokens * 16:,}")
        raise TraceError(f"{log.path}: tokens of all requests, each counted as 16 values, {over}")
    if not log.requests:
        raise TraceError(f"{log.path}: requests must be at least one, were none")
    # With two steps in flight, the last one is when a step began.
    length = _STEP_LENGTHS[log.kind] + bool(log.engine.get("async") or log.engine.get("overlap"))
    for at, step in enumerate(log.steps):
        if len(step) != length:
            raise TraceError(
                f"{log.path}: step {at} must have {length} entries, as those of {log.kind}, had {len(step)}"
            )


def _lowered(error: Exception) -> str:
    said = str(error)
    return said[0].lower() + said[1:]

"""Points of ai-dynamo/aiconfigurator (095f58a, Apache-2.0): closed loops with mean TTFT and TPOT in ms."""

from __future__ import annotations

from pathlib import Path

from paceline.validation.points.names import gpu_of, model_of
from paceline.validation.points.point import Engine, Point, Server
from paceline.validation.points.readers.scripts import Flags, deals_out, fitted_on, flags_of
from paceline.validation.points.readers.tables import Found, Row, each_row, known, table
from paceline.validation.points.refusals import (
    APART,
    ATTENTION_PARALLEL,
    DRAFTS,
    MIXED_EXPERTS,
    WIDE,
    NotModelled,
)
from paceline.validation.points.workloads import Closed

__all__ = ["COLUMNS", "read"]

COLUMNS = ("silicon_ttft_ms", "silicon_tpot_ms", "backend", "system", "concurrency", "attention_dp_size")
_ENGINES: dict[str, Engine] = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm"}

#: The sweeps of NVIDIA. AIConfigurator's scripts send requests of equal lengths (``aiperf --isl-stddev 0
#: --osl-stddev 0``), although the file's description has them drawn: in a closed loop these end together,
#: and the next ones prefill together. On a server this lock is loosened by what the replay does not know,
#: such as the order of HTTP responses. Lengths that differ by a small share stand for it: here is the
#: shortest length as a share of the longest, fitted to half of a sweep's points and checked on the rest.
_SWEEP = "nvidia-sweep"
_LEAST = {
    ("sglang", "0.5.1.post1", "qwen3-32b"): 1.0,
    ("sglang", "0.5.6.post2", "llama-3.1-8b"): 0.98,
    ("vllm", "0.12.0", "qwen3-32b"): 0.995,
    ("trtllm", "1.0.0rc3", "qwen3-32b"): 0.995,
    ("trtllm", "1.0.0rc3", "llama-3.1-8b"): 0.9,
}
#: In this sweep a request's TTFT rises by a whole answer divided by the requests in flight: one of them
#: always waits, so the server runs one fewer.
_ONE_WAITS = ("trtllm", "1.0.0rc3", "llama-3.1-8b")


def read(file: Path, name: str) -> Found:
    """Yield the points of a file."""
    yield from each_row(name, table(file), _point)


def _point(place: str, row: Row) -> Point:
    _check_modelled(row)
    model, precision = model_of(row["model_path"], row["precision"] or row["gemm_quant_mode"])
    gpu = gpu_of(row["system"])
    if row["mode"] != "agg":
        raise NotModelled(APART)
    tensor, whole = _split(row, mixture=model.experts is not None)
    version = row["backend_version"] or ""
    version = version if version[:1].isdigit() else ""
    measured = known(ttft=1e-3 * row["silicon_ttft_ms"], tpot=1e-3 * row["silicon_tpot_ms"])
    sweep = row["source"].startswith(_SWEEP)
    whole = whole or deals_out(_ENGINES[row["backend"]], model.name, gpu, version)
    key = (row["backend"], version, model.name)
    least = _LEAST.get(key) if sweep else None
    engine, concurrency = _ENGINES[row["backend"]], row["concurrency"]
    fitted = "how equal lengths are" if least else fitted_on(engine, version, model.name, gpu)
    flags = (
        _sweep_flags(key, precision, concurrency)
        if sweep
        else flags_of(engine, model.name, gpu, (tensor, whole), (row["isl"], concurrency), version)
    )
    return Point(
        id=place,
        server=Server(
            engine=engine,
            version=version,
            model=model,
            gpu=gpu,
            tensor_parallel=tensor,
            expert_parallel=whole,
            **flags._asdict(),
        ),
        precision=precision,
        workload=Closed(
            prompt_tokens=row["isl"],
            output_tokens=row["osl"],
            concurrency=concurrency,
            requests=10 * concurrency,
            least=least or 0.8,
        ),
        measured=measured,
        in_flight=float(concurrency),
        fitted=fitted,
    )


def _sweep_flags(key: tuple[str, str, str], precision: str, concurrency: int) -> Flags:
    """Return what a sweep's points say of their servers.

    Keys and values of Qwen3-32B in FP8 under TensorRT-LLM are in 8 bits, too: 128 requests of 2,176 tokens
    run together on one H100, beside 33 GB of weights.
    """
    return Flags(
        max_num_seqs=concurrency - 1 if key == _ONE_WAITS else None,
        kv_dtype="fp8" if key[0] == "trtllm" and precision == "fp8" else "auto",
    )


def _check_modelled(row: Row) -> None:
    """Refuse what the file's description or the model leaves open.

    Raises
    ------
    NotModelled
        With the reason.
    """
    if row["spec_method"] == "unknown":
        raise NotModelled("may draft tokens (MTP): the data do not say")
    if row["spec_method"] == "mtp":
        raise NotModelled(DRAFTS)
    if row["concurrency"] is None:
        raise NotModelled("the requests in flight are not in the data")
    if row["backend_version"] == "0.12.0" and "Llama-3.1-8B" in row["model_path"]:
        raise NotModelled("doubtful: its concurrency implies 1.5 PFLOP/s of an H200")
    sides = ("attention_dp_size", "prefill_attention_dp_size", "decode_attention_dp_size")
    if any((row.get(side) or 1) > 1 for side in sides):
        raise NotModelled(ATTENTION_PARALLEL)
    if (row["pp_size"] or 1) > 1:
        raise NotModelled("pipeline parallelism")
    if row["batch_size"] is not None and row["batch_size"] != row["concurrency"]:
        raise NotModelled("a batch that is not the concurrency, for a reason that is not in the data")


def _split(row: Row, *, mixture: bool) -> tuple[int, bool]:
    """Return GPUs of an instance, and whether they hold whole experts.

    Where ``moe_tp_size`` and ``moe_ep_size`` are the same, ``tp_size`` is their product: InferenceX lists the
    same runs with so many tensor-parallel GPUs and the experts dealt out over them, and its throughput by GPU
    agrees.

    Raises
    ------
    NotModelled
        If experts are both split and dealt out.
    """
    tensor, split, dealt = row["tp_size"], row["moe_tp_size"] or 1, row["moe_ep_size"] or 1
    if not mixture:
        return tensor, False
    if split == dealt and tensor == split * dealt:
        tensor, split = dealt, 1
    if tensor > 8:
        raise NotModelled(WIDE)
    if split > 1 and dealt > 1:
        raise NotModelled(MIXED_EXPERTS)
    return tensor, dealt > 1

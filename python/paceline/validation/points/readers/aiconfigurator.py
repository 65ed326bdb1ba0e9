"""Points of ai-dynamo/aiconfigurator (095f58a, Apache-2.0): closed loops with mean TTFT and TPOT in ms."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from paceline.validation.points.names import gpu_of, model_of, trtllm_version
from paceline.validation.points.point import Engine, Point, Server, Split
from paceline.validation.points.readers.inferencex import NETWORKS
from paceline.validation.points.readers.recipes import of_recipe
from paceline.validation.points.readers.scripts import (
    Flags,
    Run,
    as_computed,
    fitted_on,
    flags_of,
    settled,
    version_of,
)
from paceline.validation.points.readers.splits import by_recipe, split_of
from paceline.validation.points.readers.tables import Found, Row, each_row, known, table
from paceline.validation.points.refusals import (
    APART,
    DRAFTS,
    UNKNOWN_RANKS,
    NotModelled,
)
from paceline.validation.points.workloads import Closed

__all__ = ["COLUMNS", "read"]

COLUMNS = ("silicon_ttft_ms", "silicon_tpot_ms", "backend", "system", "concurrency", "attention_dp_size")
_ENGINES: dict[str, Engine] = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm"}

#: The sweeps of NVIDIA, which AIConfigurator's generator set up. Its client sends requests of equal lengths
#: (``aiperf --isl-stddev 0 --osl-stddev 0``, ``bench_run.sh.j2``), although the file's description has them
#: drawn: in a closed loop these end together, and the next ones prefill together.
_SWEEP = "nvidia-sweep"
#: Versions of SGLang whose sweeps run decodes beside prompts (``agg enable_mixed_chunk = true`` in the
#: generator's rules). Those of 0.5.1.post1 and 0.5.8.post1 do not: their TTFT would be five times too short.
_MIXED = ("0.5.6.post2",)
#: Tokens of a step beyond a prompt and a token for each request, by the generator's rules for vLLM and
#: TensorRT-LLM (``max_num_tokens = max_batch_size + isl + 1500``, in ``rule_plugin/benchmark``), and the part
#: of the memory that its template for TensorRT-LLM has for KV (``extra_engine_args.1.0.0rc3.yaml.j2``).
_SPARE_TOKENS, _TRTLLM_MEMORY = 1500, 0.8
#: Tokens to whose multiples the limit of TensorRT-LLM is rounded up (``tokens_per_block``).
_TRTLLM_ROUND = 32
#: Sweeps to which the host time of a step was fitted.
_HOSTS = (("vllm", "0.12.0"), ("trtllm", "1.0.0rc3"), ("sglang", "0.5.6.post2"))
#: In this sweep a request's TTFT rises by a whole answer divided by the requests in flight: one of them
#: always waits, so the server runs one fewer.
_ONE_WAITS = ("trtllm", "1.0.0rc3", "llama-3.1-8b")


class _Undrafted(NamedTuple):
    """What a file says of the rows that do not say themselves whether tokens were drafted.

    A configuration of InferenceX's database (``inferencex_config_id``) has one ``spec_method``, among its
    hardware, engine, model and split (``inferencex-data`` of SemiAnalysisAI/InferenceX-app). So a row of a
    configuration that has another row without drafts was run without drafts.

    Attributes
    ----------
    configurations
        Those of a row without drafts.
    runs
        Runs without drafts, by what stands in each of their rows.
    """

    configurations: frozenset[int]
    runs: frozenset[tuple[object, ...]]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> _Undrafted:
        """Return what the rows of a file say together."""
        rows = list(rows)
        by_method: dict[str, set[int]] = {}
        for row in rows:
            if row.get("inferencex_config_id") is not None:
                by_method.setdefault(row["spec_method"], set()).add(row["inferencex_config_id"])
        settled = by_method.get("none", set()) - by_method.get("mtp", set())
        whole = cls(frozenset(settled), frozenset())
        return cls(whole.configurations, frozenset(_run(row) for row in rows if whole.has(row)))

    def has(self, row: Row) -> bool:
        """Whether a row was run without drafts."""
        method = row["spec_method"]
        settled = row.get("inferencex_config_id") in self.configurations or _run(row) in self.runs
        return method == "none" or (method == "unknown" and settled)


def _run(row: Row) -> tuple[object, ...]:
    load = tuple(row[name] for name in ("system", "backend", "isl", "osl", "concurrency"))
    return (*load, f"{row['silicon_ttft_ms']:.6g}", f"{row['silicon_tpot_ms']:.6g}")


def read(file: Path, name: str) -> Found:
    """Yield the points of a file."""
    rows = table(file)
    undrafted = _Undrafted.of(rows.iter_rows(named=True))
    yield from each_row(name, rows, functools.partial(_point, undrafted))


def _point(undrafted: _Undrafted, place: str, row: Row) -> Point:
    _check_modelled(row, undrafted)
    # The rows of the database name the architecture, and their ids the model that InferenceX ran.
    name = "deepseek-r1" if str(row.get("id")).startswith("dsr1_") else row["model_path"]
    model, precision = model_of(name, row["precision"] or row["gemm_quant_mode"])
    gpu = gpu_of(row["system"])
    prefill, decode = _instances(row)
    split = apart = _split(row, mixture=model.experts is not None) if not prefill else _side(row, "decode")
    network = None
    if prefill:
        apart, network = _side(row, "prefill"), NETWORKS.get(gpu)
        if network is None:
            raise NotModelled(APART)
    gpus = split.tensor_parallel * split.data_parallel
    version = _version(row)
    # Means of these runs contain a stall: see the reader of InferenceX's own data, which have percentiles.
    stalls = row["backend"] == "sglang" and gpu == "b200" and not version
    ttft = None if stalls else 1e-3 * row["silicon_ttft_ms"]
    measured = known(ttft=ttft, tpot=1e-3 * row["silicon_tpot_ms"])
    sweep = row["source"].startswith(_SWEEP)
    key = (row["backend"], version, model.name)
    engine, concurrency = _ENGINES[row["backend"]], row["concurrency"]
    load = (row["isl"], row["osl"], concurrency)
    date = str(row.get("measured_date") or "")
    scripted, ranks = not (prefill or sweep), split.data_parallel
    run = settled(Run(engine, model, gpu, gpus, split.expert_parallel, *load, version, date, scripted, ranks))
    fitted = _sweep_fitted(engine, version) if sweep else fitted_on(engine, version, model.name, gpu)
    fitted = "" if prefill else fitted
    flags = _sweep_flags(key, precision, row) if sweep else flags_of(run)
    flags = of_recipe(flags, run, (prefill, decode), apart) if prefill else flags
    return Point(
        id=place,
        server=Server(
            engine=engine,
            version=version_of(run),
            model=as_computed(run),
            gpu=gpu,
            tensor_parallel=gpus // run.ranks,
            data_parallel=run.ranks,
            expert_parallel=run.dealt,
            instances=prefill + decode,
            prefill=prefill,
            prefill_split=None if apart == split else apart,
            network=network,
            **flags._asdict(),
        ),
        precision=precision,
        workload=Closed(
            prompt_tokens=row["isl"],
            output_tokens=row["osl"],
            concurrency=concurrency,
            requests=10 * concurrency,
            least=1.0 if sweep else 0.8,
        ),
        measured=measured,
        in_flight=concurrency / decode / run.ranks,
        fitted=fitted,
    )


def _version(row: Row) -> str:
    """Return the engine's version; empty if the row has none, or a word."""
    version = row["backend_version"] or ""
    if not version[:1].isdigit():
        return ""
    return trtllm_version(version) if row["backend"] == "trtllm" else version


def _sweep_flags(key: tuple[str, str, str], precision: str, row: Row) -> Flags:
    """Return the flags of a sweep's servers, by the rules and templates of AIConfigurator's generator.

    The largest batch is that of the row, which is what is in flight on a rank. Keys and values of Qwen3-32B
    in FP8 under TensorRT-LLM are in 8 bits, too: 128 requests of 2,176 tokens run together on one H100,
    beside 33 GB of weights.
    """
    (engine, version, _), concurrency = key, row["concurrency"]
    tokens = (row["batch_size"] or concurrency) + row["isl"] + _SPARE_TOKENS
    if engine == "vllm":
        return Flags(max_num_batched_tokens=tokens)
    if engine == "trtllm":
        return Flags(
            max_num_batched_tokens=-(-tokens // _TRTLLM_ROUND) * _TRTLLM_ROUND,
            max_num_seqs=concurrency - 1 if key == _ONE_WAITS else None,
            memory=_TRTLLM_MEMORY,
            kv_dtype="fp8" if precision == "fp8" else "auto",
        )
    return Flags(mixed_chunk=version in _MIXED)


def _sweep_fitted(engine: Engine, version: str) -> str:
    """Return what was fitted to a sweep's points; empty if nothing was."""
    if (engine, version) in _HOSTS:
        return "host time of a step"
    return "decodes beside prompts" if engine == "sglang" else ""


def _check_modelled(row: Row, undrafted: _Undrafted) -> None:
    """Refuse what the file's description or the model leaves open.

    Raises
    ------
    NotModelled
        With the reason.
    """
    if row["spec_method"] == "unknown" and not undrafted.has(row):
        raise NotModelled("may draft tokens (MTP): the data do not say")
    if row["spec_method"] == "mtp":
        raise NotModelled(DRAFTS)
    if row["concurrency"] is None:
        raise NotModelled("the requests in flight are not in the data")
    if row["backend_version"] == "0.12.0" and "Llama-3.1-8B" in row["model_path"]:
        raise NotModelled("doubtful: its concurrency implies 1.5 PFLOP/s of an H200")
    if any((row.get(name) or 1) > 1 for name in ("pp_size", "prefill_pp_size", "decode_pp_size")):
        raise NotModelled("pipeline parallelism")
    ranks = row["attention_dp_size"] or 1
    if row["batch_size"] is not None and row["batch_size"] * ranks != row["concurrency"]:
        raise NotModelled("a batch that is not the concurrency, for a reason that is not in the data")


def _instances(row: Row) -> tuple[int, int]:
    """Return the instances that prefill and those that decode; one that does both counts as the latter.

    Raises
    ------
    NotModelled
        If the data do not list them.
    """
    if row["mode"] == "agg":
        return 0, 1
    prefill, decode = row.get("prefill_num_workers"), row.get("decode_num_workers")
    if not prefill or not decode:
        raise NotModelled(APART)
    return prefill, decode


def _side(row: Row, side: str) -> Split:
    """Return how instances that prefill or that decode share the model."""
    tensor, data = row[f"{side}_tp_size"], row[f"{side}_attention_dp_size"] or 1
    if data > 1 and tensor > 1:
        raise NotModelled(UNKNOWN_RANKS)
    dealt = row[f"{side}_moe_ep_size"] or 1
    sum_up = row["backend"] == "sglang" and row["system"].startswith("gb") and by_recipe(data, dealt)
    return split_of(tensor * data, dealt, ranks=data > 1 and not sum_up)


def _split(row: Row, *, mixture: bool) -> Split:
    """Return how an instance's GPUs share the model.

    Where ``moe_tp_size`` and ``moe_ep_size`` are the same, ``tp_size`` or ``attention_dp_size`` is their
    product: InferenceX lists the same runs with so many GPUs and the experts dealt out over them, and its
    throughput by GPU agrees. Of vLLM's rows ``tp_size``, ``attention_dp_size`` and the root of
    ``moe_ep_size`` are the same: the scripts then start as many ranks of one GPU
    (``--tensor-parallel-size=1 --data-parallel-size=$TP``, minimaxm2.5_fp4_b200.sh), but on H100, whose
    script does not know ranks of attention.

    Raises
    ------
    NotModelled
        If experts are both split and dealt out.
    """
    tensor, split, dealt = row["tp_size"], row["moe_tp_size"] or 1, row["moe_ep_size"] or 1
    data = row["attention_dp_size"] or 1
    if not mixture and data == 1:
        return Split(tensor)
    if data > 1 and tensor == data and dealt == data * tensor:
        return split_of(data, data, ranks=not row["system"].startswith("h100"))
    if data > 1 and tensor == 1 and split in (1, dealt) and data == split * dealt:
        return split_of(dealt, dealt, ranks=True)
    if data > 1:
        raise NotModelled(UNKNOWN_RANKS)
    if split == dealt and tensor == split * dealt:
        tensor = dealt
    return split_of(tensor, dealt, ranks=False)

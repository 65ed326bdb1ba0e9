"""The dense roofline against Splitwise's measurements of Llama-2-70B on A100s and H100s.

Splitwise (arXiv:2311.18677; ``perf_model.csv`` of github.com/Mutinifni/splitwise-sim) measured vLLM of 2023:
``prompt_time`` is the step that computes the prompts of a batch, ``token_time`` the mean decode step after
it. The fit uses half of the sizes, and errors are stated on the other half. Whole sizes are held out: rows of
the same size differ by noise alone, and would be no test.

That engine launched its kernels one by one from Python, and prepared and sampled each request there, in
between steps: a decode step takes 30 ms on four H100s, no less on eight, and half as much again with 64
requests. So the fit has, beside shares of the datasheet, the time to launch a step (which overlaps with the
GPU's time) and the host's time for each request and each batch of prompts (which are added). The rooflines of
later engines do not need these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl

from paceline._least_squares import Floats, fit_bounded
from paceline.cost import Efficiency, Roofline
from paceline.deployment import Cluster, Instance
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.kernels import Curve, read_all_reduce
from paceline.kernels.typed import Kind, read_csv, without_nulls
from paceline.model import Model
from paceline.policies.vllm import vllm
from paceline.replaying import replay
from paceline.trace import Trace

__all__ = ["Cell", "RooflineFit", "fit_link", "fit_roofline", "read_splitwise"]

_COLUMNS: dict[str, Kind] = {
    "model": "text",
    "hardware": "text",
    "tensor_parallel": "count",
    "prompt_size": "count",
    "batch_size": "count",
    "token_size": "count",
    "prompt_time": "number",
    "token_time": "number",
}
_MODEL = ("llama2-70b", "llama-2-70b")
_GPUS = {"a100-80gb": "a100-80gb", "h100-80gb": "h100-sxm"}
#: How far apart batches arrive, in seconds: the slowest takes minutes.
_APART = 10_000.0
#: What is fitted, where from, and the most it may be: shares of the bandwidth and of the arithmetic, seconds
#: to launch a step, of each request and of a batch of prompts on the host, and the share of the link.
_FITTED = {
    "memory": (0.6, 1.0),
    "matmul": (0.5, 1.0),
    "launch_s": (0.03, 1.0),
    "request_s": (3e-4, 1.0),
    "prompts_s": (0.01, 1.0),
    "ring": (0.3, 1.0),
}
#: How far below its start a fitted number may go, as a logarithm: a factor of a million.
_RANGE = 13.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A size that was measured: medians over its repetitions, in seconds.

    Parameters
    ----------
    gpu
        The catalog's name.
    tensor_parallel
        GPUs.
    prompt_tokens, batch, output_tokens
        Tokens of each prompt, prompts at once, tokens that each got.
    prompt_s, token_s
        The step of the prompts, and the mean one after it.
    held_out
        Whether it was kept from the fit.
    odd
        Why it is left out of both halves; empty if it is not.
    """

    gpu: str
    tensor_parallel: int
    prompt_tokens: int
    batch: int
    output_tokens: int
    prompt_s: float
    token_s: float
    held_out: bool = False
    odd: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineFit:
    """The numbers fitted to one GPU, and their predictions.

    Parameters
    ----------
    gpu
        The catalog's name.
    fitted
        The numbers, by name.
    cells
        What was measured.
    predicted
        The prompts' step and the mean decode step of each, in seconds.
    """

    gpu: str
    fitted: Mapping[str, float]
    cells: tuple[Cell, ...]
    predicted: Floats

    def errors(self, *, held_out: bool) -> Floats:
        """Return relative errors of both times, a row a cell, of one half; odd cells are in neither."""
        chosen = [i for i, cell in enumerate(self.cells) if cell.held_out == held_out and not cell.odd]
        measured = np.array([(self.cells[i].prompt_s, self.cells[i].token_s) for i in chosen])
        return np.asarray(self.predicted[chosen] / measured - 1)


def read_splitwise(path: str | PathLike[str]) -> tuple[Cell, ...]:
    """Read the rows of Llama-2-70B on A100 and H100 without a power cap, a cell for each size.

    Of each GPU's sizes, in order of prompts and then batches, every other one is held out, the same at every
    degree of parallelism. A batch is odd if its prompts took less time than a batch half as large.

    Parameters
    ----------
    path
        ``perf_model.csv``, or the folder that holds it.

    Raises
    ------
    ConfigError
        If a column is missing, or there are no such rows.
    """
    path = Path(path)
    path = path / "perf_model.csv" if path.is_dir() else path
    frame = read_csv(path, _COLUMNS)
    rows = frame.filter(pl.col("model").is_in(_MODEL) & pl.col("hardware").is_in(list(_GPUS)))
    if rows.is_empty():
        raise ConfigError(f"{path} must have rows of {_MODEL[0]} on {', '.join(_GPUS)}, had none")
    without_nulls(rows, f"{path}, rows of {_MODEL[0]}", first=1, row="row")
    sizes = sorted(set(rows.select("prompt_size", "batch_size").rows()))
    held_out = {size: bool(i % 2) for i, size in enumerate(sizes)}
    medians = (
        rows.filter(pl.col("token_size") == pl.col("token_size").mode().min())
        .group_by("hardware", "tensor_parallel", "prompt_size", "batch_size", "token_size")
        .agg(pl.col("prompt_time").median(), pl.col("token_time").median())
        .sort("hardware", "tensor_parallel", "prompt_size", "batch_size")
    )
    cells = [
        Cell(
            gpu=_GPUS[hardware],
            tensor_parallel=ranks,
            prompt_tokens=prompt,
            batch=batch,
            output_tokens=tokens,
            prompt_s=1e-3 * first,
            token_s=1e-3 * later,
            held_out=held_out[prompt, batch],
        )
        for hardware, ranks, prompt, batch, tokens, first, later in medians.iter_rows()
    ]
    times = {(c.gpu, c.tensor_parallel, c.prompt_tokens, c.batch): c.prompt_s for c in cells}
    return tuple(
        replace(cell, odd=f"shorter than {cell.batch // 2} prompts")
        if times.get((cell.gpu, cell.tensor_parallel, cell.prompt_tokens, cell.batch // 2), 0.0)
        > cell.prompt_s
        else cell
        for cell in cells
    )


def fit_link(curves: Mapping[int, Curve], bytes_per_s: float) -> tuple[float, float]:
    """Fit a ring to measured all-reduces: the share of a link's bandwidth, and the shortest time.

    Parameters
    ----------
    curves
        Seconds over bytes, by GPUs.
    bytes_per_s
        The link's bandwidth in one direction.

    Returns
    -------
    tuple of float
        ``ring`` and ``ring_latency_s`` of an :class:`~paceline.cost.Efficiency`.
    """

    def residuals(numbers: Floats) -> Floats:
        share, least = numbers
        return np.array([
            np.log((least + 2 * (n - 1) / n * size / (share * bytes_per_s)) / seconds)
            for n, curve in curves.items()
            for size, seconds in zip(curve.at, curve.seconds, strict=True)
        ])  # fmt: skip

    share, least = _fit_positive(residuals, np.array([0.5, 2e-5]), np.array([1.0, 1.0]))
    return float(share), float(least)


def fit_roofline(
    cells: tuple[Cell, ...],
    gpu: str,
    *,
    reductions: str | PathLike[str] | None = None,
    fixed: Mapping[str, float] | None = None,
) -> RooflineFit:
    """Fit the roofline's shares to the cells of one GPU that are not held out, and predict all.

    Parameters
    ----------
    cells
        As read.
    gpu
        The catalog's name of the GPU.
    reductions
        A folder of all-reduces in Vidur's format (``h100*.all_reduce.csv``, plain or compressed), to which
        the ring is fitted, as a share of the link, and taken over to other GPUs; without it the ring's share
        is fitted to the steps, with the rest.
    fixed
        Numbers to take as they are, by the names in :attr:`RooflineFit.fitted`, and not to fit.
    """
    chosen = tuple(cell for cell in cells if cell.gpu == gpu)
    # Prompts were measured past the 4,096 positions that the model was trained for.
    device, model = Gpu.load(gpu), replace(Model.load("llama-2-70b"), max_positions=2**15)
    base = _base(device, reductions)
    train = [i for i, cell in enumerate(chosen) if not cell.held_out and not cell.odd]
    measured = np.array([(cell.prompt_s, cell.token_s) for cell in chosen])

    given = {"ring": base.ring} if reductions is not None else {}
    given |= fixed or {}
    names = [name for name in _FITTED if name not in given]

    def predict(numbers: Floats) -> Floats:
        of = {**given, **dict(zip(names, numbers.tolist(), strict=True))}
        memory, matmul = of["memory"], of["matmul"]
        efficiency = replace(
            base,
            memory=memory,
            attention_memory=memory,
            matmul=matmul,
            attention_matmul=matmul,
            ring=of["ring"],
        )
        steps = np.maximum(_steps(chosen, model, device, efficiency), of["launch_s"])
        host = of["request_s"] * np.array([[cell.batch] for cell in chosen])
        return np.asarray(steps + host + np.array([[of["prompts_s"], 0.0]]))

    def residuals(numbers: Floats) -> Floats:
        return np.asarray(np.log(predict(numbers)[train] / measured[train])).reshape(-1)

    start, most = (np.array([_FITTED[name][i] for name in names]) for i in (0, 1))
    found = _fit_positive(residuals, start, most) if names else start
    fitted = {**given, **dict(zip(names, found.tolist(), strict=True))}
    return RooflineFit(gpu=gpu, fitted=fitted, cells=chosen, predicted=predict(found))


def _fit_positive(residuals: Callable[[Floats], Floats], start: Floats, most: Floats) -> Floats:
    """Return the numbers up to ``most`` that make the sum of squares least."""
    logs = np.log(start)
    found = fit_bounded(
        lambda of: residuals(np.exp(of)),
        logs,
        logs - _RANGE,
        np.log(most),
        differences=(1e-3,),
        evaluations=60,
        tolerance=1e-7,
    )
    return np.exp(found)


def _base(gpu: Gpu, reductions: str | PathLike[str] | None) -> Efficiency:
    """Return what is not fitted to steps: NCCL's ring, as engines of 2023 reduced on any link."""
    known = gpu.efficiency or Efficiency(
        memory=1.0, matmul=1.0, attention_memory=1.0, attention_matmul=1.0, layer_s=0.0, step_s=0.0
    )
    ring, latency_s = known.ring, known.ring_latency_s
    files = [] if reductions is None else sorted(Path(reductions).glob("h100*all_reduce.csv*"))
    if files:
        curves: dict[int, Curve] = {}
        for file in files:
            for ranks in (
                read_csv(file, {"num_workers": "count"})["num_workers"].unique().drop_nulls().sort().to_list()
            ):
                curves[ranks] = read_all_reduce(file, ranks=ranks)
        ring, latency_s = fit_link(curves, Gpu.load("h100-sxm").link_bytes_per_s)
    # An engine without a one-shot kernel never takes less than its ring.
    return replace(
        known,
        step_s=0.0,
        attention_request_s=0.0,
        one_shot=1e-6,
        one_shot_latency_s=1.0,
        ring=ring,
        ring_latency_s=latency_s,
    )


def _steps(cells: tuple[Cell, ...], model: Model, gpu: Gpu, efficiency: Efficiency) -> Floats:
    """Return the prompts' step and the mean decode step of each cell, by the engine itself."""
    times = np.empty((len(cells), 2))
    for ranks in sorted({cell.tensor_parallel for cell in cells}):
        mine = [i for i, cell in enumerate(cells) if cell.tensor_parallel == ranks]
        instance = Instance(
            model=model, gpu=gpu, tensor_parallel=ranks, cost=Roofline(efficiency=efficiency),
            num_blocks=1_000_000, max_model_len="auto",
        )  # fmt: skip
        each = [cell for i in mine for cell in [cells[i]] * cells[i].batch]
        starts = np.repeat(_APART * np.arange(len(mine)), [cells[i].batch for i in mine])
        trace = Trace.from_columns(
            arrival=starts,
            prompt_tokens=[cell.prompt_tokens for cell in each],
            output_tokens=[cell.output_tokens for cell in each],
        )
        policy = vllm(max_num_batched_tokens=2**20, max_num_seqs=1024)
        rows = replay(trace, Cluster([instance]), policy).requests
        first, last = rows["ttft"].to_numpy(), rows["e2e"].to_numpy()
        ends = np.cumsum([cells[i].batch for i in mine]) - 1
        for i, end in zip(mine, ends, strict=True):
            times[i] = first[end], (last[end] - first[end]) / (cells[i].output_tokens - 1)
    return times

"""CUDA graphs: the numbers of tokens to which steps are padded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._clock import ticks
from paceline._toml import build
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.speculation import Speculation

__all__ = ["CudaGraphs", "cuda_graphs_from_table"]

_MOST = 2**32 - 2  # rust/core/src/config/limits.rs


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class CudaGraphs:
    """The CUDA graphs that an instance has captured, and to whose sizes its steps are padded.

    A step runs as the smallest graph that holds its tokens, and takes the time of that graph's tokens in what
    has a row for each token: norms, matrix multiplications and all-reduces. Attention, KV, routed experts, LM
    head and sampler do not see the padding. A step of more tokens than the largest graph is not padded.
    Counters of work and energy count the step's own tokens. Follows vLLM 0.33.0, with its default mode of
    full graphs for decodes and piecewise graphs for other steps.

    A cost that was fitted to measured steps of a server has the padding of these steps in its coefficients.
    Measured kernels are of exact numbers of tokens.

    Parameters
    ----------
    sizes
        Tokens of the graphs, rising: ``cudagraph_capture_sizes`` of vLLM. Those above the budget of a step
        are not captured. None: vLLM's default, see :meth:`captured`.
    eager_step_s
        Seconds that a step of more tokens than the largest graph takes at least: the host launches its
        kernels one by one, and it does not end before the last launch. A drafter's passes have no such time.

    Raises
    ------
    ConfigError
        If the sizes do not rise, or there is none; or the time is negative.

    Examples
    --------
    >>> CudaGraphs().captured(max_num_batched_tokens=2048, max_num_seqs=10)
    (1, 2, 4, 8, 10, 16)
    >>> CudaGraphs(sizes=(8, 64)).captured(max_num_batched_tokens=32, max_num_seqs=10)
    (8,)
    """

    sizes: tuple[int, ...] | None = None
    eager_step_s: float = 0.0

    def __post_init__(self) -> None:
        _check.seconds("eager_step_s of CudaGraphs", self.eager_step_s)
        if self.sizes is None:
            return
        for size in self.sizes:
            _check.count(
                "each of the sizes of CudaGraphs", size, most=_MOST, why="the engine's largest count"
            )
        if not self.sizes or any(after <= before for before, after in pairwise(self.sizes)):
            raise ConfigError(f"sizes of CudaGraphs must be at least one, and rise, were {self.sizes}")

    @typed()
    def captured(
        self,
        *,
        max_num_batched_tokens: int,
        max_num_seqs: int,
        gpu: Gpu | None = None,
        speculation: Speculation | None = None,
    ) -> tuple[int, ...]:
        """Return the sizes that are captured.

        vLLM's default is 1, 2, 4, every 8th below 256 and every 16th from there, up to twice
        ``max_num_seqs`` times the tokens of a decode with its drafts. The largest is at most 512, and 1024 on
        GPUs of compute capability 10.x (B200, B300); none is above ``max_num_batched_tokens``. That limit
        and the widest step of decodes are sizes, too, if they are not above the largest; with drafts every
        8th or 16th number of requests is (``VllmConfig._set_cudagraph_sizes``, 0.33.0).

        Parameters
        ----------
        max_num_batched_tokens, max_num_seqs
            The scheduler's limits.
        gpu
            None: one whose largest size is 512.
        speculation
            The drafts that decodes have.
        """
        if self.sizes is not None:
            return tuple(size for size in self.sizes if size <= max_num_batched_tokens)
        ceiling = 1024 if gpu is not None and _is_capability_10(gpu) else 512
        tiers = _tiers(speculation, max_num_seqs)
        widest = 1 if speculation is None else 1 + speculation.tokens
        most = min(2 * max_num_seqs * widest, ceiling)
        decodes = [
            requests * width
            for width, tier in tiers.items()
            for requests in ([tier] if widest == 1 else [*_strided(min(tier, ceiling)), min(tier, ceiling)])
        ]
        largest = min(most, max_num_batched_tokens)
        limits = [max_num_batched_tokens, *decodes]
        return tuple(sorted({*_strided(largest), *(size for size in limits if size <= largest)}))

    def to_wire(
        self,
        *,
        max_num_batched_tokens: int,
        max_num_seqs: int,
        gpu: Gpu | None = None,
        speculation: Speculation | None = None,
    ) -> dict[str, Any]:
        """Return the sizes as the engine reads them: of any step, and of decodes that have all their drafts.

        A graph of decodes holds whole requests, so that its size is rounded up to a multiple of their tokens
        (``CudaGraphManager._init_candidates``). See :meth:`captured`.
        """
        sizes = self.captured(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            gpu=gpu,
            speculation=speculation,
        )
        widths = [] if speculation is None else sorted(_tiers(speculation, max_num_seqs))
        uniform = []
        for width in widths:
            whole = sorted({-(-size // width) * width for size in sizes})
            most = min(sizes[-1], max_num_seqs * width) if sizes else 0
            uniform.append({"drafts": width - 1, "sizes": [size for size in whole if size <= most]})
        eager = {"eager": ticks(self.eager_step_s)} if self.eager_step_s else {}
        return {"sizes": list(sizes), "uniform": uniform, **eager}


def _strided(most: int) -> list[int]:
    """Return vLLM's grid up to a number."""
    grid = [1, 2, 4, *range(8, 256, 8), *range(256, most + 1, 16)]
    return [size for size in grid if size <= most]


def _tiers(speculation: Speculation | None, max_num_seqs: int) -> dict[int, int]:
    """Return the most requests of a step by the tokens that each decodes."""
    if speculation is None:
        return {1: max_num_seqs}
    pairs = speculation.tokens_by_batch or ((1, speculation.tokens),)
    ends = [start - 1 for start, _ in pairs[1:]] + [max_num_seqs]
    reached = [
        (drafts, min(end, max_num_seqs))
        for (start, drafts), end in zip(pairs, ends, strict=True)
        if start <= max_num_seqs
    ]
    return {1 + drafts: end for drafts, end in reached}


def _is_capability_10(gpu: Gpu) -> bool:
    return any(name in gpu.device.lower() for name in ("b200", "b300"))


def cuda_graphs_from_table(content: Mapping[str, Any], what: str) -> CudaGraphs:
    """Return the graphs of a TOML table; ``what`` names it in errors."""
    sizes = content.get("sizes")
    return build(CudaGraphs, {**content, "sizes": tuple(sizes)} if isinstance(sizes, list) else content, what)

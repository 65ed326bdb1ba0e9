"""A cost model that follows from specifications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._toml import build, dump, parse
from paceline.cost.coverage import Coverage
from paceline.cost.mixture import mixture_wire
from paceline.cost.rank import Rank
from paceline.cost.tables import cost_to_table, fields_of
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.hardware.efficiency import Efficiency
from paceline.model import Model

__all__ = ["Roofline"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(but=("coverage", "expert_parallel"))
class Roofline:
    """The time of a step from the model's shape and the GPU's figures.

    Each kernel takes ``max(bytes / bandwidth, FLOPs / arithmetic)``, both scaled by what kernels reach, and
    its least time besides, where that is known; a step is the sum over kernels and layers:

    - the four matrix multiplications of a layer (query-key-value, output, gate and up, down), each on its
      own: its weights and its tokens' activations against its arithmetic;
    - attention, one kernel for the decoding requests and one for those in prefill. They add up: where vLLM
      runs both in one launch, the measured time is above even the sum (RTX 4090: the sum is 40% low in the
      median, the longer of the two 57%; RTX PRO 6000: 26% and 49%);
    - attention over sliding windows separately, for the layers with one: the tokens in the windows are
      bounded by ``min(context, window * requests)``, which is exact if all contexts are on the same side of
      it;
    - the routed experts as one kernel: it reads the experts of a layer that any token of the batch is routed
      to, by uniform routing in closed form or by a measured ``coverage``. Where kernels of their type of
      weights were measured, reading and multiplying add up, as each expert has few tokens;
    - latent attention (MLA): decodes on the compressed cache, which every rank holds whole, prompts on
      expanded heads. Expanding the context of earlier chunks again is not counted;
    - norms, rotary positions and activation function as memory traffic of each token;
    - the LM head and the sampler for the rows that are sampled;
    - two all-reduces a layer and one after the embedding under tensor parallelism, also with whole experts,
      each by the fastest way for its size and ranks: one-shot or two-shot by vLLM's kernel, a ring or a tree
      by NCCL (:mod:`paceline.cost.all_reduce`);
    - tokens gathered from data-parallel ranks for the experts that they share, and the sums scattered back;
    - under pipeline parallelism, the activations that a stage sends to the next. A step passes the stages one
      after another, so it takes the sum over them, with no other step in flight
      (:class:`~paceline.deployment.Instance` says what that leaves out);
    - constants per step, layer and request.

    Parameters
    ----------
    efficiency
        The share of the datasheet that kernels reach; by default the catalog's for the GPU.
    coverage
        A measured curve of the experts that a batch needs; by default routing is uniform.
    expert_parallel
        Whether the ranks hold whole experts (vLLM's ``--enable-expert-parallel``), and wait for the rank that
        reads most of them; else each expert is split over all ranks.
    data_parallel
        Ranks of attention that share the experts, each with its own requests and cache: the cost is of an
        instance that is one of them. The other ranks are taken to have as many tokens in every step. Experts
        are distributed or split over the ranks of data times those of tensor parallelism.

    Notes
    -----
    How far the catalog's numbers are off with nothing fitted to steps (``PYTHONPATH=tests python -m
    unit.cost.measured`` prints it where the measurements are at hand):

    - Llama-3.1-8B against LLMServingSim's measured kernels (vLLM 0.19), whole steps of 1 to 256 decodes over
      256 to 8,192 tokens of context: RTX 4090 -2.2% on average (-9 to +2%), RTX PRO 6000 -1.9% (-7 to +1%).
      Prompts of 128 to 2,048 tokens: -2.5% (-14 to +1%) and -4.0% (-12 to +4%). These two GPUs' efficiencies
      were read off single points of the same tables: this says how well the form holds between them, and is
      no prediction.
    - Llama-2-70B against Splitwise's measurements, batch 1, prompts of 128 to 8,192 tokens, to which nothing
      was fitted: on 2, 4 and 8 GPUs, prompts are 29, 42 and 53% low on H100 (9, 23 and 36% on A100)
      and decode steps 21, 44 and 66% low (3, 34 and 62%). That engine is of 2023, without CUDA graphs: a
      decode step of 30 ms on 4 H100s is as long on 8, so most of it is overhead that later engines shed.
    - Kernels of A100, H100, H200, B200 and GB200 against AISimulate's tables, on the half of shapes that was
      not fitted (``python benches/efficiencies.py``): multiplications in 16 bits are 8 to 11% off in the
      median, in 8 bits 20 to 24%, attention of decodes 14 to 24%, experts 18 to 30%.
    - 1,500 measured points of engines, none of which was read for these numbers: ``docs/accuracy.md``.
    - All-reduces against curves of NCCL and of vLLM's kernel: ``python benches/all_reduce.py``.

    Not modelled: wave and tile quantisation, power limits, decodes of uneven length, and the serial walk of a
    short chunk over a long context; of mixtures, uneven loads between experts (beyond which are hit at all),
    data-parallel ranks that wait for a busier one (they all take part in every step), other ways to move
    tokens to experts than vLLM's default, and which of the layers a group of layered prefill or a stage
    holds: all count as equal. Matrices in fp8 are multiplied at the GPU's
    8-bit rate where it has one, experts in mxfp4 at 16 bits.

    Examples
    --------
    >>> from paceline.hardware import Gpu
    >>> from paceline.model import Model
    >>> wire = Roofline().to_wire(Model.load("llama-3.1-8b"), Gpu.load("h100-sxm"))
    >>> sum(linear["weights"] for linear in wire["linears"]) / 1e12    # seconds to read the layers' weights
    0.005689...
    >>> mixture = Model.load("qwen3-30b-a3b")
    >>> measured = Roofline(coverage=Coverage.load("qwen3-30b-a3b-sharegpt"))
    >>> for cost in (Roofline(), measured):
    ...     read = dict(cost.to_wire(mixture, Gpu.load("h100-sxm"))["experts"]["weights"])
    ...     print(f"{read[1] / 1e9:.2f} ms for one token's experts, {read[32] / 1e9:.1f} ms for 32 tokens'")
    3.18 ms for one token's experts, 17.2 ms for 32 tokens'
    3.18 ms for one token's experts, 11.6 ms for 32 tokens'
    """

    efficiency: Efficiency | None = None
    coverage: Coverage | None = None
    expert_parallel: bool = False
    data_parallel: int = 1

    def __post_init__(self) -> None:
        if self.efficiency is not None and not isinstance(self.efficiency, Efficiency):
            raise ConfigError(
                f"efficiency of a Roofline must be an Efficiency, was {_check.said(self.efficiency)}"
            )
        if self.coverage is not None and not isinstance(self.coverage, Coverage):
            raise ConfigError(f"coverage of a Roofline must be a Coverage, was {_check.said(self.coverage)}")
        _check.count("data_parallel of a Roofline", self.data_parallel)
        whole: object = self.expert_parallel
        if not isinstance(whole, bool):
            was = _check.said(whole)
            raise ConfigError(f"expert_parallel of a Roofline must be true or false, was {was}")

    @typed()
    def check(
        self, model: Model, gpu: Gpu, *, tensor_parallel: int = 1, pipeline_parallel: int = 1
    ) -> Efficiency:
        """Refuse a model, GPU and split that the roofline cannot cost; return the efficiencies it uses.

        Parameters
        ----------
        model, gpu
            The model, and the GPU that it runs on.
        tensor_parallel
            GPUs that the model is split over.
        pipeline_parallel
            Stages that the layers are divided into.

        Raises
        ------
        ConfigError
            If the model cannot be split so, the GPU has no efficiencies and none are given, there is a
            coverage or data parallelism for a model without experts, or the coverage is of another model.
        """
        efficiency = self.efficiency or gpu.efficiency
        if efficiency is None:
            raise ConfigError(f"GPU {gpu.name!r} has no efficiency: give Roofline(efficiency=...)")
        sharing = tensor_parallel * self.data_parallel
        model.check_parallel(tensor_parallel, expert_ranks=sharing if self.expert_parallel else None)
        _check.count("pipeline_parallel", pipeline_parallel)
        self._check_experts(model)
        return efficiency

    @typed()
    def to_wire(
        self,
        model: Model,
        gpu: Gpu,
        *,
        tensor_parallel: int = 1,
        kv_dtype: str = "auto",
        pipeline_parallel: int = 1,
    ) -> dict[str, Any]:
        """Return the cost as the engine reads it: coefficients in ticks, summed over layers.

        Parameters
        ----------
        model, gpu, tensor_parallel, pipeline_parallel
            As for :meth:`check`.
        kv_dtype
            As in vLLM; ``"auto"`` is the model's own.

        Raises
        ------
        ConfigError
            As :meth:`check` does.
        """
        efficiency = self.check(
            model, gpu, tensor_parallel=tensor_parallel, pipeline_parallel=pipeline_parallel
        )
        rank = Rank(
            model,
            gpu,
            efficiency,
            tensor_parallel=tensor_parallel,
            data_parallel=self.data_parallel,
            pipeline_parallel=pipeline_parallel,
            kv_dtype=kv_dtype,
        )
        return rank.wire() | self._experts(model, rank)

    def to_toml(self) -> str:
        """Return the model as the text of a TOML file."""
        return dump(cost_to_table(self))

    @classmethod
    @typed()
    def from_toml(cls, text: str) -> Roofline:
        """Read what :meth:`to_toml` wrote."""
        return cls.from_table(parse(text, "a cost"), "a cost")

    @classmethod
    @typed()
    def from_table(cls, content: Mapping[str, Any], what: str) -> Roofline:
        """Read a table of kind ``roofline``; ``what`` names the table in errors."""
        fields = fields_of(content, "roofline", what)
        if "efficiency" in fields:
            fields["efficiency"] = build(Efficiency, fields["efficiency"], f"efficiency of {what}")
        if isinstance(fields.get("coverage"), dict):
            fields["coverage"] = build(Coverage, fields["coverage"], f"coverage of {what}")
        return build(cls, fields, what)

    def _check_experts(self, model: Model) -> None:
        """Refuse a coverage and data parallelism that are not for this model's experts."""
        experts = model.experts
        if experts is None:
            if self.coverage is not None:
                raise ConfigError(
                    f"coverage of a Roofline must be None for {model.name!r}: it has no experts"
                )
            if self.data_parallel > 1:
                raise ConfigError(
                    f"data_parallel of a Roofline must be 1 for {model.name!r}, was {self.data_parallel}: it "
                    f"has no experts to share, so its data-parallel ranks are separate instances"
                )
        elif self.coverage is not None:
            one = self.coverage.share[0] * experts.count
            if abs(one - experts.per_token) > 0.05 * experts.per_token:
                raise ConfigError(
                    f"coverage of a Roofline for {model.name!r} must start at its {experts.per_token} of "
                    f"{experts.count} experts a token, was {one:.2f}"
                )

    def _experts(self, model: Model, rank: Rank) -> dict[str, Any]:
        """Return the coefficients of the routed experts; nothing for a dense model."""
        experts = model.experts
        if experts is None:
            return {}
        return {
            "experts": mixture_wire(
                model,
                experts,
                ranks=rank.ranks,
                data_ranks=self.data_parallel,
                whole=self.expert_parallel,
                coverage=self.coverage,
                kernels=rank.experts(model.expert_dtype),
                number=rank.number,
            )
        }

"""How an instance forms its steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from paceline._arguments import typed, typed_fields
from paceline._check import said
from paceline._clock import TICKS_PER_SECOND
from paceline._toml import close_matches
from paceline.errors import PolicyError
from paceline.policy.composition import check_composition
from paceline.policy.eviction import Eviction
from paceline.policy.expressions.accumulated import Accumulated
from paceline.policy.expressions.scope import Scope, condition
from paceline.policy.expressions.tree import Expr, Operand
from paceline.policy.expressions.wire import Names
from paceline.policy.expressions.wire import to_wire as expression_to_wire
from paceline.policy.loras import Loras
from paceline.policy.orders import OF_COLUMNS, OF_OUTPUTS, QueueOrder
from paceline.policy.pipelines import Pipelined
from paceline.policy.prefix_cache import LONGEST_PREFIX, PrefixCache
from paceline.policy.prompt_batches import PromptBatch
from paceline.policy.queues import Class, Displace, Keys, Refresh, check_classes, ranked
from paceline.policy.ranking import accumulators_of, keys_in, levels_of, quantum_of, reads_cached, to_wire
from paceline.policy.reserves import OutputReserve
from paceline.policy.stages import (
    Admit,
    PcieSwap,
    Recompute,
    Running,
    Select,
    Stage,
    Swap,
    preemption_to_wire,
    stage_to_wire,
)
from paceline.policy.step_limits import bucket, least_tokens, most_tokens, step_tokens, threshold
from paceline.policy.value import Value

if TYPE_CHECKING:
    from paceline.deployment import Instance

__all__ = ["NO_LIMIT", "QueueOrder", "Scheduler"]

_SELDOM = ("requeue_last", "drop_unseen", "unseen_ends", "whole_block_chunks")  # written only where they hold
NO_LIMIT = 2**32 - 2
"""No limit on the tokens of a step: the largest number that the engine reads."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(
    PolicyError,
    but=(
        *("admission", "admits", "bucket", "classes", "order", "preemption"),
        *("long_prefill_token_threshold", "max_num_batched_tokens"),
    ),
)
class Scheduler(Value):
    """Form steps by stages, under rules that they share.

    The default is vLLM V1: running requests are scheduled first, then waiting
    requests are admitted, first come, first served. If blocks run out, the
    request admitted last is preempted: it frees all of its blocks and goes back to
    the head of the queue, to compute them again.

    Attributes
    ----------
    max_num_batched_tokens
        Tokens that one step may compute; None: the modelled engine's default for
        the instance's GPU. An expression over `inst` is evaluated as each step is
        formed and rounded down, to at least 1; it must have a largest value, which
        memory is reserved for.
    max_num_seqs
        Requests that may run at once; None: the default likewise.
    long_prefill_token_threshold
        The most tokens of one prefill in a step, while the instance has another
        request; 0: no limit. An expression over `inst` is evaluated for each step.
    threshold_when_alone
        Whether that limit also applies to a request that is alone.
    whole_block_chunks
        Whether a chunk that does not end its prompt is cut to whole KV blocks.
    max_num_partial_prefills
        The most requests in prefill at once, of those that continue and those that
        the step admits; 0: no limit. At the limit no further prompt is admitted.
    max_long_partial_prefills
        The most of them that lack more tokens than `long_prefill_token_threshold`;
        0: no limit. At the limit a longer prompt is passed over: it keeps its place,
        and shorter ones behind it are admitted.
    bucket
        A number of each request, by fields that never change. While requests run,
        waiting prompts of another bucket than that of the first of them are passed
        over. None: requests of all buckets run together.
    loras
        How many LoRA adapters may run at once, by the trace's column ``adapter``;
        None: adapters are ignored.
    prompt_batch
        Until when prompts that fit wait for others, while requests decode; None: they do not.
    stages
        The stages that form a step, in order.
    exclusive_prefill
        Whether a step with prefills has no decodes.
    order
        The order of requests: a name (see `QueueOrder`), one to three expressions
        over `req`, the smallest first, or a `Quantum`. Expressions and quanta rank
        running, waiting and swapped-out requests in one order; ties go to the
        earlier arrival.
    classes
        Classes of requests, the best first; each request is in the first class of
        which the condition holds. Empty: all requests are alike.
    refresh
        How often keys are evaluated that change from step to step; one that reads
        `accumulated` numbers is always current.
    admits
        A condition on `accumulated` numbers: while it does not hold for the group of
        a waiting request, the request is not admitted, and others are. None: all
        requests may be admitted.
    admission
        What happens if the best-ranked waiting request does not fit: it must
        ``wait``, or may ``displace`` worse-ranked running ones (see `Displace`).
    victim
        Which request is preempted when blocks run out: the ``latest`` admitted;
        the ``worst`` by priority, then the latest arrival; or the one with the
        ``fewest_generated`` tokens, then the longest prompt.
    allocation
        What an admission allocates: blocks for its first ``chunk``; the same, but
        only ``chunk_if_all_fits``, if the whole prompt fits (vLLM's
        ``scheduler_reserve_full_isl``); the same, but only ``chunk_if_output_fits``, if
        all blocks are free that it and the running requests will take until they end
        (TensorRT-LLM's ``GUARANTEED_NO_EVICT``); or blocks for the whole ``sequence``.
    watermark, watermark_when_idle
        Share of all blocks that an admission leaves free, 0 to 1; and whether
        that also applies when nothing runs.
    spare_block
        Whether a running request is scheduled only if a block is free, even if it needs none.
    decodes_first
        Whether, after each step, decodes come before prefills in the order of
        running requests.
    refund
        Whether the tokens of a victim that was scheduled in the same step return
        to the budget.
    stop_at_own_preemption
        Whether running requests behind one that preempted itself are not scheduled
        in the step.
    preemption
        What happens to a victim's KV: `Recompute`, a `Swap`, or the words
        ``"recompute"`` and ``"swap"``, which is short for `Swap.over_pcie()`.
    requeue_late
        Whether a victim is queued again only after the step is formed, so that
        other requests may be admitted before it in the same step.
    requeue_last
        Whether a victim is queued behind all other requests, and not before them.
    output_reserve
        What an admission leaves for the outputs of the requests that run, or None. The
        stages must be `Prefills`, if any, `Admit` and `Decodes`, in that order.
    prefix_cache
        Whether prefixes are cached, and how.
    schedule_ahead
        Whether a step is decided when the one before it starts (asynchronous
        scheduling). It then does not know requests that arrived, blocks that were
        freed and drafts that were accepted since, so that an arrival waits for one
        more step. Beside drafts the stages must be `Running` and
        ``Admit(unless_preempted=True)``, and preemption by recompute.
    drop_unseen
        Whether a request that such a decision preempts loses its token under way, as under SGLang.
        Needs an `output_reserve`, and decodes that leave steps to prefills.
    unseen_ends
        Whether such a decision computes one more token, which is discarded, of requests that end
        with the step under way, as on SGLang's decode instances.
    draft_slots
        Which steps have slots for drafts. ``"lookahead"``: each, as many as its `~paceline.Speculation` says,
        up to the longest sequence, as under vLLM. ``"two_steps"``: decodes, for the tokens of two steps and
        past the longest sequence, as under SGLang.
    pipelined
        Whether the stages of an instance with ``pipeline_parallel`` above 1 have several
        batches at a time; None: a step passes all stages before the next one is formed.
    receive_interval
        Steps without a prompt from one look for arrivals to the next: requests that
        arrive in between wait, though there may be room for them. After a step with a
        prompt, and while no step is in progress, arrivals are received at once; 1: at
        each step. SGLang's ``--scheduler-recv-interval``.

    Raises
    ------
    PolicyError
        If a value is out of its range.

    Examples
    --------
    >>> Scheduler(max_num_batched_tokens=2048).limits(defaults=(8192, 1024))
    (2048, 1024)

    Notes
    -----
    Source: vLLM 0.33.0, ``vllm/v1/core/sched/scheduler.py``; of ``receive_interval``
    SGLang 0.5.9, ``srt/managers/scheduler_recv_skipper.py``; those of other
    engines are named with their policies, in `paceline.policies`.
    """

    max_num_batched_tokens: int | Expr | None = None
    max_num_seqs: int | None = None
    long_prefill_token_threshold: int | Expr = 0
    threshold_when_alone: bool = False
    whole_block_chunks: bool = False
    max_num_partial_prefills: int = 0
    max_long_partial_prefills: int = 0
    bucket: Expr | None = None
    loras: Loras | None = None
    prompt_batch: PromptBatch | None = None
    stages: tuple[Stage, ...] = (Running(), Admit(unless_preempted=True))
    exclusive_prefill: bool = False
    order: QueueOrder | Keys = "arrival"
    classes: Sequence[Class] = ()
    refresh: Refresh | None = None
    admits: Operand | None = None
    admission: Literal["wait", "displace"] | Displace = "wait"
    victim: Literal["latest", "worst", "fewest_generated"] = "latest"
    allocation: Literal["chunk", "chunk_if_all_fits", "chunk_if_output_fits", "sequence"] = (
        "chunk_if_all_fits"
    )
    watermark: float = 0.0
    watermark_when_idle: bool = False
    spare_block: bool = False
    decodes_first: bool = False
    refund: bool = True
    stop_at_own_preemption: bool = False
    preemption: Recompute | Swap | PcieSwap | Literal["recompute", "swap"] = field(default_factory=Recompute)
    requeue_late: bool = False
    requeue_last: bool = False
    output_reserve: OutputReserve | None = None
    prefix_cache: PrefixCache | None = None
    schedule_ahead: bool = False
    drop_unseen: bool = False
    unseen_ends: bool = False
    draft_slots: Literal["lookahead", "two_steps"] = "lookahead"
    receive_interval: int = 1
    pipelined: Pipelined | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        self._settle_limits()
        if not 0.0 <= self.watermark < 1.0:
            raise PolicyError(
                f"watermark must be a share of the blocks, 0 or more and below 1, was {self.watermark}"
            )
        self._settle_preemption()
        self._settle_order()
        check_composition(self)

    def _settle_limits(self) -> None:
        """Check the limits of a step, which may be expressions."""
        object.__setattr__(self, "max_num_batched_tokens", step_tokens(self.max_num_batched_tokens))
        if self.max_num_seqs is not None and not 1 <= self.max_num_seqs < 2**32 - 1:
            raise PolicyError(
                f"max_num_seqs must be 1 to {2**32 - 2}, or None for the default, was "
                f"{said(self.max_num_seqs)}"
            )
        threshold(self.long_prefill_token_threshold)
        if not 1 <= self.receive_interval < 2**32 - 1:
            raise PolicyError(
                f"receive_interval must be 1 to {2**32 - 2} steps, was {said(self.receive_interval)}"
            )
        for name in ("max_num_partial_prefills", "max_long_partial_prefills"):
            if not 0 <= getattr(self, name) < 2**32 - 1:
                raise PolicyError(
                    f"{name} must be 0 (no limit) or more requests, below 2**32 - 1, was "
                    f"{said(getattr(self, name))}"
                )
        if self.bucket is not None:
            object.__setattr__(self, "bucket", bucket(self.bucket))

    def _settle_preemption(self) -> None:
        named: dict[object, Recompute | PcieSwap] = {"recompute": Recompute(), "swap": PcieSwap()}
        if isinstance(self.preemption, str) and self.preemption in named:
            object.__setattr__(self, "preemption", named[self.preemption])
        if not isinstance(self.preemption, Recompute | Swap | PcieSwap):
            raise PolicyError(
                f"preemption must be Recompute(), a Swap or 'swap', was {said(self.preemption)}"
            )

    def _settle_order(self) -> None:
        """Check order, classes and admission, each by itself and together."""
        if isinstance(self.order, str):
            if self.order not in get_args(QueueOrder):
                there = close_matches(self.order, get_args(QueueOrder))
                raise PolicyError(f"order must be a name, keys or a Quantum, was {self.order!r}{there}")
        else:
            object.__setattr__(self, "order", ranked(self.order, "order"))
        if not isinstance(self.classes, tuple | list):
            raise PolicyError(f"classes must be a list of Class(...), was {said(self.classes)}")
        object.__setattr__(self, "classes", tuple(self.classes))
        if isinstance(self.admission, Displace) and self.admission == Displace():
            object.__setattr__(self, "admission", "displace")
        named = isinstance(self.admission, str) and self.admission in ("wait", "displace")
        if not isinstance(self.admission, Displace) and not named:
            raise PolicyError(
                f"admission must be 'wait', 'displace' or a Displace, was {said(self.admission)}"
            )
        if self.admits is not None:
            object.__setattr__(self, "admits", condition(self.admits, "admits", Scope.QUEUE))
        check_classes(self.classes)
        if self._sorts and self.prefix_cache is None:
            raise PolicyError(f"order must not be {self.order} where prefix_cache is None")
        if self.ranks:
            self._check_ranked()

    def _check_ranked(self) -> None:
        if self._sorts:
            raise PolicyError(f"order must not be {self.order} together with classes or displacement")
        if self.victim != "latest":
            raise PolicyError(f"victim must be left out where the order ranks requests, was {self.victim!r}")
        quantum_of(self.order, self.classes)
        levels_of(self.order, self.classes)
        keys = keys_in(self.order, self.classes, self.refresh)
        if self.prefix_cache is None and any(reads_cached(own) for _, own in keys):
            raise PolicyError("order must not read req.cached_tokens where prefix_cache is None")
        if self.accumulators and any(isinstance(stage, Select) for stage in self.stages):
            raise PolicyError("stages must not be Select() where the order or admits reads accumulators")

    @property
    def ranks(self) -> bool:
        """Whether one order ranks running, waiting and swapped-out requests."""
        ranked = not isinstance(self.order, str) or bool(self.classes) or self.admission != "wait"
        return ranked or self.admits is not None

    @property
    def accumulators(self) -> list[Accumulated]:
        """The accumulators that it reads, in the order in which the engine numbers them."""
        if not self.ranks:
            return []
        return accumulators_of(self.order, self.classes, self.refresh, self._admits)

    @property
    def _admits(self) -> Expr | None:
        return self.admits if isinstance(self.admits, Expr) else None

    @property
    def _sorts(self) -> bool:
        """Whether the queue is sorted for each step; an expression would turn == into a comparison."""
        return isinstance(self.order, str) and self.order in ("longest_prefix", "shared_prefix")

    def expressions(self) -> Iterator[Expr]:
        """Yield each expression of the scheduler."""
        limits = (self.max_num_batched_tokens, self.long_prefill_token_threshold, self.bucket)
        yield from (each for each in limits if isinstance(each, Expr))
        if self.prefix_cache is not None and isinstance(self.prefix_cache.evict, Eviction):
            yield from self.prefix_cache.evict.expressions()
        if not self.ranks:
            return
        for each, keys in keys_in(self.order, self.classes, self.refresh):
            yield from keys
            if each is not None and isinstance(each.when, Expr):
                yield each.when
        if self._admits is not None:
            yield self._admits
        levels = levels_of(self.order, self.classes)
        if levels is not None:
            yield from (part for part in (levels.entry, levels.promote) if isinstance(part, Expr))
        if isinstance(self.admission, Displace) and isinstance(self.admission.when, Expr):
            yield self.admission.when

    @property
    def uses_oracle(self) -> bool:
        """Whether the scheduler reads output lengths, which no real scheduler knows."""
        reads = self.output_reserve is not None or self.allocation == "chunk_if_output_fits"
        if reads or (isinstance(self.order, str) and self.order in OF_OUTPUTS):
            return True
        return any(getattr(part, "space", "") == "oracle" for of in self.expressions() for part in of.walk())

    @typed(PolicyError)
    def on(self, instance: Instance) -> Scheduler:
        """Return the scheduler for an instance, with the size of its swap space.

        Raises
        ------
        ConfigError
            If the swap space follows from the instance, which has no model or GPU.
        """
        if isinstance(self.preemption, PcieSwap):
            return dataclasses.replace(self, preemption=self.preemption.on(instance))
        return self

    @typed(PolicyError)
    def limits(self, defaults: tuple[int, int]) -> tuple[int, int]:
        """Return `max_num_batched_tokens` and `max_num_seqs`, from `defaults` where they are None.

        Of an expression it is the largest value.
        """
        tokens = (
            defaults[0] if self.max_num_batched_tokens is None else most_tokens(self.max_num_batched_tokens)
        )
        seqs = defaults[1] if self.max_num_seqs is None else self.max_num_seqs
        return tokens, seqs

    @typed(PolicyError)
    def sized_for(self, defaults: tuple[int, int]) -> tuple[int, int]:
        """Return the tokens and requests of a step that an instance reserves activation memory for.

        They are its :meth:`limits`; if tokens have no limit, as in `orca`, those of `defaults`.
        """
        tokens, seqs = self.limits(defaults)
        return (defaults[0] if tokens >= NO_LIMIT else tokens), seqs

    @typed(PolicyError)
    def to_wire(
        self,
        *,
        num_blocks: int,
        defaults: tuple[int, int],
        ticks_per_s: float = TICKS_PER_SECOND,
        names: Names | None = None,
    ) -> dict[str, object]:
        """Return the scheduler as the engine reads it, for one instance.

        Parameters
        ----------
        num_blocks
            Blocks as the modelled engine counts them for its watermark.
        defaults
            ``max_num_batched_tokens`` and ``max_num_seqs`` where they are None.
        ticks_per_s
            Ticks in a second.
        names
            Codes of tenants, and the objectives, for expressions that name them.

        Returns
        -------
        dict
            The engine's configuration, every field given.

        Raises
        ------
        PolicyError
            If an expression names an unknown tenant or objective, or the swap space
            depends on an instance (see `on`).
        """
        tokens, seqs = self.limits(defaults)
        longest = self.long_prefill_token_threshold
        return {
            "max_num_batched_tokens": tokens,
            "max_num_seqs": seqs,
            "long_prefill_token_threshold": 0 if isinstance(longest, Expr) else longest,
            **self._limits(names or Names(), ticks_per_s),
            "stages": [stage_to_wire(stage, ticks_per_s, self.preemption) for stage in self.stages],
            "exclusive_prefill": self.exclusive_prefill,
            "order": self._order(names or Names(), ticks_per_s),
            "admission": self._admission(names or Names()),
            "victim": self.victim,
            "allocation": self.allocation,
            "watermark_blocks": int(self.watermark * num_blocks),
            "watermark_when_idle": self.watermark_when_idle,
            "spare_block": self.spare_block,
            "decodes_first": self.decodes_first,
            "refund": self.refund,
            "stop_at_own_preemption": self.stop_at_own_preemption,
            "threshold_when_alone": self.threshold_when_alone,
            "preemption": preemption_to_wire(self.preemption, ticks_per_s),
            "requeue_late": self.requeue_late,
            "prefix_cache": self.prefix_cache and self.prefix_cache.to_wire(names or Names()),
            "schedule_ahead": self.schedule_ahead,
            **({"receive_interval": self.receive_interval} if self.receive_interval > 1 else {}),
            **{name: True for name in _SELDOM if getattr(self, name)},
            **({} if self.prompt_batch is None else {"prompt_batch": self.prompt_batch.to_wire()}),
            **({} if self.output_reserve is None else {"output_reserve": self.output_reserve.to_wire()}),
        }

    def _limits(self, names: Names, ticks_per_s: float) -> dict[str, object]:
        """Return the limits that vary, and those of prompts beside others, where there are any."""
        varying: dict[str, object] = {}
        if isinstance(self.max_num_batched_tokens, Expr):
            of = expression_to_wire(self.max_num_batched_tokens, names)
            varying["tokens"] = {"least": least_tokens(self.max_num_batched_tokens), "of": of}
        if isinstance(self.long_prefill_token_threshold, Expr):
            varying["chunk"] = expression_to_wire(self.long_prefill_token_threshold, names)
        joining: dict[str, object] = {
            "prefills": self.max_num_partial_prefills,
            "long_prefills": self.max_long_partial_prefills,
            "bucket": None if self.bucket is None else expression_to_wire(self.bucket, names),
        }
        if self.loras is not None:
            joining |= self.loras.to_wire(ticks_per_s)
        wire: dict[str, object] = {"varying": varying} if varying else {}
        return {**wire, "joining": joining} if any(joining.values()) else wire

    def _order(self, names: Names, ticks_per_s: float) -> dict[str, object]:
        if self.ranks:
            return to_wire(self.order, self.classes, self.refresh, names, ticks_per_s, self._admits)
        if self._sorts:
            return {"kind": self.order, **(LONGEST_PREFIX if self.order == "longest_prefix" else {})}
        # The engine ranks by one column of integers, which the trace's column is converted to.
        return {"kind": "priority" if self.order in OF_COLUMNS else "arrival"}

    def _admission(self, names: Names) -> dict[str, object]:
        if self.admission == "wait":
            return {"kind": "wait"}
        displace = self.admission if isinstance(self.admission, Displace) else Displace()
        return displace.to_wire(names)

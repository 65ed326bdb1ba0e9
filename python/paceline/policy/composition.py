"""Compositions of stages and rules that have no meaning, refused when the scheduler is built.

The engine refuses the same compositions (``rust/core/src/config/composition.rs``). All others are computed
as they are written: the order of the stages is free, and later stages skip a request that is already
scheduled in the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from paceline.errors import PolicyError
from paceline.policy.expressions.namespaces import req
from paceline.policy.expressions.tree import Expr
from paceline.policy.prefix_cache import PrefixCache
from paceline.policy.queues import Class
from paceline.policy.stages import (
    Admit,
    Decodes,
    Layered,
    PcieSwap,
    Prefills,
    Recompute,
    Running,
    Select,
    Stage,
    Swap,
    SwapIn,
)

__all__ = ["Composition", "check_composition"]


class Composition(Protocol):
    """What the checks read of a :class:`~paceline.policy.scheduler.Scheduler`; see there."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of a step, in order."""
        ...

    @property
    def max_num_batched_tokens(self) -> int | Expr | None:
        """Tokens that one step may compute."""
        ...

    @property
    def long_prefill_token_threshold(self) -> int | Expr:
        """The most tokens of one prefill in a step."""
        ...

    @property
    def whole_block_chunks(self) -> bool:
        """Whether chunks are whole blocks."""
        ...

    @property
    def prompt_batch(self) -> object:
        """Until when prompts are held back, if they are."""
        ...

    @property
    def max_num_partial_prefills(self) -> int:
        """The most requests in prefill at once."""
        ...

    @property
    def max_long_partial_prefills(self) -> int:
        """The most long requests in prefill at once."""
        ...

    @property
    def bucket(self) -> Expr | None:
        """The bucket of a request."""
        ...

    @property
    def loras(self) -> object:
        """How many adapters may run at once."""
        ...

    @property
    def exclusive_prefill(self) -> bool:
        """Whether a step with prefills has no decodes."""
        ...

    @property
    def decodes_first(self) -> bool:
        """Whether decodes come before prefills in the order of running requests."""
        ...

    @property
    def spare_block(self) -> bool:
        """Whether a running request needs a block to spare."""
        ...

    @property
    def stop_at_own_preemption(self) -> bool:
        """Whether a request that preempts itself ends the stage."""
        ...

    @property
    def schedule_ahead(self) -> bool:
        """Whether a step is decided when the one before it starts."""
        ...

    @property
    def drop_unseen(self) -> bool:
        """Whether a preempted request loses the token that the decision does not know."""
        ...

    @property
    def unseen_ends(self) -> bool:
        """Whether the decision computes one more token of requests that end with the step under way."""
        ...

    @property
    def receive_interval(self) -> int:
        """Steps without a prompt from one receipt of arrivals to the next."""
        ...

    @property
    def classes(self) -> Sequence[Class]:
        """Classes of requests."""
        ...

    @property
    def allocation(self) -> str:
        """What an admission allocates."""
        ...

    @property
    def preemption(self) -> object:
        """What happens to the KV of a preempted request."""
        ...

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Whether prefixes are cached, and how."""
        ...

    @property
    def output_reserve(self) -> object:
        """What an admission leaves for outputs to come."""
        ...

    @property
    def order(self) -> object:
        """The order of requests."""
        ...

    @property
    def ranks(self) -> bool:
        """Whether one order ranks all requests of the instance."""
        ...

    @property
    def admission(self) -> object:
        """What happens if the best-ranked waiting request does not fit."""
        ...


def check_composition(scheduler: Composition) -> None:
    """Refuse a composition without a meaning.

    Raises
    ------
    PolicyError
        Names the field, the rule and the value.
    """
    _check_stages(scheduler.stages)
    _check_layers(scheduler)
    _check_exclusive(scheduler)
    _check_memory(scheduler)
    _check_limits(scheduler)
    _check_chunks(scheduler)
    _check_prompt_batch(scheduler)
    _check_reserve(scheduler)
    _check_tree(scheduler)
    _check_drop_unseen(scheduler)
    if any(isinstance(stage, Select) for stage in scheduler.stages):
        _check_selecting(scheduler)
    if scheduler.ranks:
        _check_ranked(scheduler)
    else:
        _check_unranked(scheduler)


def _check_stages(stages: tuple[Stage, ...]) -> None:
    def count(*kinds: type[Stage]) -> int:
        return sum(isinstance(stage, kinds) for stage in stages)

    if not all(isinstance(stage, Stage) for stage in stages):
        raise PolicyError(f"stages must be Running(), Decodes(), Admit() or other stages, were {stages!r}")
    if count(Select):
        if len(stages) > 1:
            raise PolicyError(f"stages must have no other stage beside Select(), were {stages!r}")
        return
    if count(Admit, Layered) != 1:
        raise PolicyError(f"stages must admit in exactly one stage, Admit or Layered, were {stages!r}")
    if count(Running, Decodes) != 1:
        raise PolicyError(
            f"stages must run decodes in exactly one stage, Running or Decodes, were {stages!r}"
        )
    if count(Prefills) > 1 or count(SwapIn) > 1:
        raise PolicyError(f"stages must have each stage once at most, were {stages!r}")
    if count(Running) and count(Prefills):
        raise PolicyError(
            f"stages must not have Prefills() beside Running(), which runs them, were {stages!r}"
        )
    chunked = any(isinstance(stage, Admit) and stage.chunked for stage in stages)
    if chunked and not count(Running, Prefills):
        raise PolicyError(
            "stages must continue prompts that Admit() cuts into chunks: add Prefills() or Running(), or "
            f"admit prompts whole with Admit(chunked=False); were {stages!r}"
        )


def _check_selecting(scheduler: Composition) -> None:
    if not scheduler.ranks:
        raise PolicyError("order must be keys, a Quantum or classes beside Select(), which selects by rank")
    if scheduler.admission != "wait":
        raise PolicyError(
            "admission must be 'wait' beside Select(), by which ranks decide already, was "
            f"{scheduler.admission!r}"
        )
    reserves = any(isinstance(stage, Select) and stage.swap_reserve for stage in scheduler.stages)
    if reserves and isinstance(scheduler.preemption, Recompute):
        raise PolicyError(
            "swap_reserve of Select() must be 0 where preemption is Recompute(), which has no swap space"
        )
    if scheduler.prefix_cache is not None:
        raise PolicyError(
            "prefix_cache must be None beside Select(), which selects requests before it looks at their "
            f"blocks, was {scheduler.prefix_cache!r}"
        )


def _check_layers(scheduler: Composition) -> None:
    stages = scheduler.stages
    layered = next((stage for stage in stages if isinstance(stage, Layered)), None)
    if layered is None:
        return
    if any(isinstance(stage, Running | Prefills) for stage in stages):
        raise PolicyError(f"stages must not have Running() or Prefills() beside {layered!r}, were {stages!r}")
    if layered.layers < 1 or not 1 <= layered.groups.most <= layered.layers:
        raise PolicyError(
            f"most of Groups must be 1 to the {layered.layers} layers, was {layered.groups.most}"
        )
    if not isinstance(scheduler.preemption, Recompute):
        raise PolicyError(
            "preemption must be Recompute() where prefills run by groups of layers, was "
            f"{scheduler.preemption!r}"
        )


def _check_exclusive(scheduler: Composition) -> None:
    if not scheduler.exclusive_prefill:
        return
    stages = scheduler.stages
    place = next((at for at, stage in enumerate(stages) if isinstance(stage, Decodes)), None)
    if place is None:
        raise PolicyError("exclusive_prefill must be False beside Running(), which runs prefills and decodes")
    if any(isinstance(stage, Admit | Prefills) for stage in stages[place:]) or any(
        isinstance(stage, Layered) for stage in stages
    ):
        raise PolicyError(
            "exclusive_prefill must be False unless Decodes() comes after Admit() and Prefills(), and "
            f"prefills are not Layered; stages were {stages!r}"
        )
    if scheduler.output_reserve is None and any(isinstance(stage, SwapIn) for stage in stages[:place]):
        raise PolicyError(
            f"exclusive_prefill must be False where SwapIn() comes before Decodes(); stages were {stages!r}"
        )


def _check_memory(scheduler: Composition) -> None:
    stages = scheduler.stages
    if scheduler.allocation == "chunk_if_output_fits":
        _check_outputs_fit(scheduler)
        return
    yields = any(isinstance(stage, Decodes) and stage.sits_out for stage in stages)
    alone = (scheduler.exclusive_prefill or yields) and scheduler.allocation == "chunk_if_all_fits"
    apart = any(isinstance(stage, Prefills) for stage in stages) and not alone
    layered = any(isinstance(stage, Layered) for stage in stages)
    if scheduler.allocation != "sequence" and (apart or layered):
        raise PolicyError(
            "allocation must be 'sequence' where Prefills() or Layered() continue prefills, since nothing is "
            "preempted for them ('chunk_if_all_fits' will do with exclusive_prefill or sits_out); was "
            f"{scheduler.allocation!r}"
        )


def _check_outputs_fit(scheduler: Composition) -> None:
    other = next((stage for stage in scheduler.stages if isinstance(stage, Select | Layered)), None)
    fields = {
        "stages": None if other is None else scheduler.stages,
        "admission": None if scheduler.admission == "wait" else scheduler.admission,
        "preemption": None if isinstance(scheduler.preemption, Recompute) else scheduler.preemption,
        "output_reserve": scheduler.output_reserve,
    }
    for name, value in fields.items():
        if value is not None:
            raise PolicyError(
                "allocation must be 'chunk', 'chunk_if_all_fits' or 'sequence' where requests are selected, "
                f"displaced or swapped out, prefills are Layered, or there is an output_reserve; {name} was "
                f"{value!r}"
            )


def _check_chunks(scheduler: Composition) -> None:
    """Refuse chunks of whole blocks beside what is not modelled with them; the engine knows the blocks."""
    if not scheduler.whole_block_chunks:
        return
    stages = tuple(stage for stage in scheduler.stages if isinstance(stage, Select | Layered))
    if stages:
        raise PolicyError(f"whole_block_chunks must be False beside {stages[0]!r}, was True")
    if not isinstance(scheduler.preemption, Recompute):
        raise PolicyError("whole_block_chunks must be False where preemption is a Swap, was True")
    if isinstance(scheduler.long_prefill_token_threshold, Expr):
        raise PolicyError(
            "whole_block_chunks must be False where long_prefill_token_threshold is an expression, was True"
        )


def _check_prompt_batch(scheduler: Composition) -> None:
    """Refuse prompts that wait for others beside what is not modelled with them."""
    if scheduler.prompt_batch is None:
        return
    whole, admit = Admit(chunked=False), scheduler.stages[-1]
    plain = isinstance(admit, Admit) and replace(admit, unless_preempted=whole.unless_preempted) == whole
    limits = (scheduler.max_num_partial_prefills, scheduler.max_long_partial_prefills)
    broken = {
        "stages": scheduler.stages[:-1] != (Running(),) or not plain,
        "order": scheduler.ranks or scheduler.order != "arrival",
        "preemption": not isinstance(scheduler.preemption, Recompute),
        "prefix_cache": scheduler.prefix_cache is not None,
        "a limit on prompts": any(limits) or scheduler.bucket is not None or scheduler.loras is not None,
    }
    for name, breaks in broken.items():
        if breaks:
            raise PolicyError(
                "prompt_batch must be None unless Running() and Admit(chunked=False) serve requests in the "
                "order of arrival, without a Swap, a prefix_cache, a bucket, loras and limits on prompts; "
                f"{name} stood against it"
            )


def _check_limits(scheduler: Composition) -> None:
    whole = any(isinstance(stage, Admit | Select) and not stage.chunked for stage in scheduler.stages)
    if whole and isinstance(scheduler.max_num_batched_tokens, Expr):
        raise PolicyError(
            "max_num_batched_tokens must be a number where prompts are admitted whole, as it says which are "
            f"too long, was {scheduler.max_num_batched_tokens!r}"
        )
    limits = {
        "max_num_partial_prefills": scheduler.max_num_partial_prefills,
        "max_long_partial_prefills": scheduler.max_long_partial_prefills,
        "bucket": scheduler.bucket,
        "loras": scheduler.loras,
    }
    selects = any(isinstance(stage, Select) for stage in scheduler.stages)
    for name, value in limits.items():
        if selects and (isinstance(value, Expr) or value):
            raise PolicyError(f"{name} must be left out beside Select(), which ranks, was {value!r}")
    if scheduler.loras is not None and not isinstance(scheduler.preemption, Recompute):
        raise PolicyError(
            "preemption must be Recompute() beside loras, as a request that is swapped in is not passed "
            f"over, was {scheduler.preemption!r}"
        )
    threshold = scheduler.long_prefill_token_threshold
    if scheduler.max_long_partial_prefills and not isinstance(threshold, Expr) and threshold == 0:
        raise PolicyError(
            "max_long_partial_prefills must be 0 without a long_prefill_token_threshold, above which a "
            f"prompt is long, was {scheduler.max_long_partial_prefills}"
        )


def _check_tree(scheduler: Composition) -> None:
    """Refuse a tree of prefixes where admissions are tried at each step."""
    if scheduler.prefix_cache is None or scheduler.prefix_cache.tree is None:
        if isinstance(scheduler.order, str) and scheduler.order == "shared_prefix":
            raise PolicyError("order must not be shared_prefix unless prefix_cache has a tree")
        return
    tree = scheduler.prefix_cache.tree
    if scheduler.decodes_first:
        raise PolicyError(f"tree of prefix_cache must be None beside decodes_first, was {tree!r}")
    if scheduler.output_reserve is None:
        raise PolicyError(
            "tree of prefix_cache must be None unless there is an output_reserve, beside which admissions "
            f"are not tried again before there is room, was {tree!r}"
        )


def _preempts_plainly(scheduler: Composition) -> bool:
    """Whether decodes alone preempt, in steps without prefills, until all that are left find their blocks."""
    return scheduler.exclusive_prefill and not (scheduler.spare_block or scheduler.stop_at_own_preemption)


def _check_drop_unseen(scheduler: Composition) -> None:
    """Refuse to drop tokens of preempted requests unless decodes alone preempt, in steps without prefills."""
    tiers = scheduler.prefix_cache is not None and scheduler.prefix_cache.tiers
    plain = _preempts_plainly(scheduler) and not (scheduler.decodes_first or tiers)
    if scheduler.unseen_ends and not (scheduler.drop_unseen and plain):
        rule = "without drop_unseen and exclusive_prefill, or beside decodes_first, spare_block, tiers or "
        raise PolicyError(f"unseen_ends must be False {rule}stop_at_own_preemption, was True")
    if not scheduler.drop_unseen:
        return
    decodes = scheduler.stages[-1]
    apart = scheduler.exclusive_prefill or (isinstance(decodes, Decodes) and decodes.sits_out)
    cache = scheduler.prefix_cache
    for holds, rule in (
        (scheduler.schedule_ahead, "without schedule_ahead, which decides steps before tokens are known"),
        (scheduler.output_reserve is not None, "without an output_reserve"),
        (apart, "unless decodes leave steps to prefills: exclusive_prefill, or Decodes(sits_out=True)"),
        (cache is None or cache.tree is not None, "beside a prefix_cache without a tree"),
        (not scheduler.spare_block, "beside spare_block"),
    ):
        if not holds:
            raise PolicyError(f"drop_unseen must be False {rule}, was True")


def _check_reserve(scheduler: Composition) -> None:
    """Refuse an output reserve where prefills may come after decodes, or keep their KV off the GPU."""
    stages = scheduler.stages
    swaps = isinstance(stages[0], SwapIn) and scheduler.output_reserve is not None
    before = stages[swaps:-1]
    last = isinstance(stages[-1], Decodes) and all(isinstance(stage, Prefills | Admit) for stage in before)
    for stage in stages:
        if isinstance(stage, Decodes) and stage.sits_out and (scheduler.exclusive_prefill or not last):
            raise PolicyError(
                "sits_out of Decodes() must be False unless Decodes() comes after Admit() and Prefills(), "
                f"which do not exclude it; stages were {stages!r}"
            )
        if isinstance(stage, Decodes) and stage.sits_out and stage.charged:
            raise PolicyError(
                "charged of Decodes() must be False where they sit out, as they are charged before, was "
                f"{stage!r}"
            )
    if scheduler.output_reserve is None:
        return
    cached = scheduler.prefix_cache is not None and scheduler.prefix_cache.tree is None
    names = ("over_prefills", "unless_swapped")
    other = cached or any(getattr(stage, name, False) for stage in stages for name in names)
    last = last and not (swaps and (other or not _preempts_plainly(scheduler)))
    if not last or (isinstance(before[0], Admit) and len(before) > 1):
        raise PolicyError(
            "output_reserve must be None unless the stages are Prefills(), Admit() and Decodes() in this "
            "order, or the last two; or these behind SwapIn(), over_prefills=False and exclusive_prefill, "
            f"no unless_swapped, spare_block, stop_at_own_preemption or cached blocks; were {stages!r}"
        )
    if scheduler.ranks:
        raise PolicyError("output_reserve must be None where the order ranks requests")


def _check_unranked(scheduler: Composition) -> None:
    swaps = isinstance(scheduler.preemption, Swap | PcieSwap)
    if swaps != any(isinstance(stage, SwapIn) for stage in scheduler.stages):
        raise PolicyError(
            "stages must have SwapIn() exactly where preemption is a Swap, were "
            f"{scheduler.stages!r} with {scheduler.preemption!r}"
        )


def _check_ranked(scheduler: Composition) -> None:
    stages = scheduler.stages
    if any(isinstance(stage, SwapIn) for stage in stages):
        raise PolicyError(
            "stages must have no SwapIn() where the order ranks requests: Admit() resumes swapped ones, too"
        )
    for stage in stages:
        if not isinstance(stage, Running | Admit | Select):
            raise PolicyError(
                "stages must be Running() and Admit(), or Select(), where the order ranks requests, had "
                f"{stage!r}"
            )
        if isinstance(stage, Admit) and (stage.gather is not None or stage.unless_swapped):
            raise PolicyError(
                "Admit must have no gather and no unless_swapped where the order ranks requests, was "
                f"{stage!r}"
            )
    for name in ("schedule_ahead", "requeue_late", "decodes_first"):
        if getattr(scheduler, name):
            raise PolicyError(f"{name} must be False where the order ranks requests, was True")
    if scheduler.receive_interval > 1:
        raise PolicyError(
            f"receive_interval must be 1 where the order ranks requests, was {scheduler.receive_interval}"
        )
    for each in scheduler.classes:
        if not isinstance(each.when, Expr):
            continue
        for field in (req.joined, req.quanta, req.level):
            if any(field.same(part) for part in each.when.walk()):
                raise PolicyError(
                    f"when of Class {each.name!r} must not read {field!r}, which starts again as the "
                    "class is entered; read req.generated_tokens, or give the class a hold"
                )

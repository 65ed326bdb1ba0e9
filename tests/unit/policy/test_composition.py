"""Compositions of stages and rules without a meaning are refused when the policy is built."""

from __future__ import annotations

from typing import Any

import pytest

from paceline import PolicyError, Scheduler, cluster, inst, oracle, req
from paceline.policy import Class, Loras, OutputReserve, PrefixCache, PromptBatch, Quantum, where
from paceline.policy.stages import (
    Admit,
    Decodes,
    Gather,
    Groups,
    Layered,
    Prefills,
    Running,
    Select,
    Swap,
    SwapIn,
)

SWAP = Swap(cpu_blocks=10)
LAYERS = Layered(layers=4, groups=Groups(most=2))
WHOLE = Admit(chunked=False)

BY_LOAD = where(inst.running > 64, 512, 8192)

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a budget that varies and whole prompts": (
        {"stages": (Running(), WHOLE), "max_num_batched_tokens": BY_LOAD},
        "must be a number where prompts are admitted whole",
    ),
    "a budget without a largest value": (
        {"max_num_batched_tokens": 64 + inst.running},
        "must have a largest value",
    ),
    "a budget of no tokens": ({"max_num_batched_tokens": where(inst.running > 1, 0, -1)}, "at most 1 to"),
    "a budget by the request": (
        {"max_num_batched_tokens": where(req.priority > 1, 512, 8192)},
        "must not read req.priority; a step depends on its instance alone",
    ),
    "a budget by what a request is to an instance": (
        {"max_num_batched_tokens": where(inst.fits(req), 512, 8192)},
        "must not read inst.fits",
    ),
    "a budget by the cluster": (
        {"max_num_batched_tokens": where(cluster.max(inst.running) > 1, 512, 8192)},
        "must not read the cluster",
    ),
    "a threshold by what a router keeps": (
        {"long_prefill_token_threshold": inst.routed_requests},
        "a router keeps it, and no instance has it",
    ),
    "a budget that is a condition": ({"max_num_batched_tokens": inst.running > 1}, "must be a number"),
    "a budget by a pool": (
        {"max_num_batched_tokens": where(inst.role == "prefill", 512, 8192)},
        "only routing knows pools",
    ),
    "long prefills without a threshold": (
        {"max_long_partial_prefills": 1},
        "must be 0 without a long_prefill_token_threshold",
    ),
    "limited prefills beside a selection": (
        {"stages": (Select(),), "order": req.score, "max_num_partial_prefills": 1},
        "max_num_partial_prefills must be left out beside Select()",
    ),
    "a bucket beside a selection": (
        {"stages": (Select(),), "order": req.score, "bucket": req.prompt_tokens // 8},
        "bucket must be left out beside Select()",
    ),
    "adapters beside a selection": (
        {"stages": (Select(),), "order": req.score, "loras": Loras(2)},
        "loras must be left out beside Select()",
    ),
    "adapters and swapping": (
        {"stages": (Running(), SwapIn(), Admit()), "preemption": SWAP, "loras": Loras(2)},
        "must be Recompute() beside loras",
    ),
    "a bucket that changes": (
        {"bucket": oracle.remaining_tokens // 8},
        "bucket must read fields of a request that never change",
    ),
    "two stages admit": ({"stages": (Running(), Admit(), LAYERS)}, "admit in exactly one stage"),
    "no stage runs decodes": ({"stages": (Prefills(), Admit())}, "run decodes in exactly one stage"),
    "a stage twice": ({"stages": (Decodes(), Prefills(), Prefills(), Admit())}, "each stage once"),
    "prefills in two stages": ({"stages": (Running(), Prefills(), Admit())}, "beside Running"),
    "cut prompts that no stage goes on with": ({"stages": (Admit(), Decodes())}, "cuts into chunks"),
    "layers beside another stage of prefills": ({"stages": (Running(), LAYERS)}, "beside Layered"),
    "more groups than layers": (
        {"stages": (Decodes(), Layered(layers=2, groups=Groups(most=3))), "allocation": "sequence"},
        "most of Groups must be 1 to the 2 layers, was 3",
    ),
    "layers and swapping": (
        {"stages": (Decodes(), SwapIn(), LAYERS), "allocation": "sequence", "preemption": SWAP},
        "preemption must be Recompute",
    ),
    "exclusive prefills in one stage with decodes": ({"exclusive_prefill": True}, "beside Running"),
    "exclusive prefills that come after decodes": (
        {"stages": (Decodes(), WHOLE), "exclusive_prefill": True},
        "unless Decodes() comes after Admit()",
    ),
    "exclusive prefills by layers": (
        {"stages": (LAYERS, Decodes()), "exclusive_prefill": True, "allocation": "sequence"},
        "prefills are not Layered",
    ),
    "exclusive prefills that swapping in does not know of": (
        {"stages": (SwapIn(), WHOLE, Decodes()), "exclusive_prefill": True, "preemption": SWAP},
        "SwapIn() comes before Decodes()",
    ),
    "chunks of whole blocks that are swapped out": (
        {"whole_block_chunks": True, "preemption": SWAP, "stages": (Running(), SwapIn(), Admit())},
        "whole_block_chunks must be False where preemption is a Swap",
    ),
    "chunks of whole blocks by layers": (
        {"whole_block_chunks": True, "stages": (Decodes(), LAYERS), "allocation": "sequence"},
        "whole_block_chunks must be False beside Layered",
    ),
    "chunks of whole blocks up to a threshold that varies": (
        {"whole_block_chunks": True, "long_prefill_token_threshold": where(inst.running > 1, 8, 16)},
        "long_prefill_token_threshold is an expression",
    ),
    "prompts that wait and are cut": (
        {"prompt_batch": PromptBatch(tokens=8, steps=2)},
        "stages stood against it",
    ),
    "prompts that wait and may be cached": (
        {
            "prompt_batch": PromptBatch(tokens=8, steps=2),
            "stages": (Running(), Admit(chunked=False)),
            "prefix_cache": PrefixCache(),
        },
        "prefix_cache stood against it",
    ),
    "prompts that wait and are ranked": (
        {
            "prompt_batch": PromptBatch(tokens=8, steps=2),
            "stages": (Running(), Admit(chunked=False)),
            "order": req.prompt_tokens,
        },
        "order stood against it",
    ),
    "prefills that go on without their blocks": (
        {"stages": (Decodes(), Prefills(), Admit())},
        "allocation must be 'sequence'",
    ),
    "swapping out and never in": ({"preemption": SWAP}, "SwapIn() exactly where"),
    "swapping in what is never out": ({"stages": (Running(), SwapIn(), Admit())}, "SwapIn() exactly where"),
    "ranks and a stage for swapped requests": (
        {"stages": (Running(), SwapIn(), Admit()), "order": req.score, "preemption": SWAP},
        "no SwapIn()",
    ),
    "ranks and other stages": (
        {"stages": (Decodes(), WHOLE), "order": req.score},
        "Running() and Admit(), or Select(), where the order ranks",
    ),
    "ranks and gathering": (
        {"stages": (Running(), Admit(gather=Gather(size=2, wait_s=1.0))), "order": req.score},
        "no gather",
    ),
    "ranks and a wait for swapped requests": (
        {"stages": (Running(), Admit(unless_swapped=True)), "order": req.score},
        "no unless_swapped",
    ),
    "ranks decided ahead": ({"order": req.score, "schedule_ahead": True}, "schedule_ahead must be False"),
    "dropped tokens of steps that are not decided ahead": (
        {"drop_unseen": True},
        "drop_unseen must be False without schedule_ahead",
    ),
    "dropped tokens beside vLLM's stages": (
        {"drop_unseen": True, "schedule_ahead": True},
        "drop_unseen must be False without an output_reserve",
    ),
    "dropped tokens of decodes beside prefills": (
        {
            "drop_unseen": True,
            "schedule_ahead": True,
            "stages": (WHOLE, Decodes()),
            "output_reserve": OutputReserve(),
        },
        "drop_unseen must be False unless decodes leave steps to prefills",
    ),
    "dropped tokens and blocks that are cached as they are scheduled": (
        {
            "drop_unseen": True,
            "schedule_ahead": True,
            "stages": (WHOLE, Decodes()),
            "exclusive_prefill": True,
            "output_reserve": OutputReserve(),
            "prefix_cache": PrefixCache(),
        },
        "drop_unseen must be False beside a prefix_cache without a tree",
    ),
    "ranks and arrivals at some steps": (
        {"order": req.score, "receive_interval": 2},
        "receive_interval must be 1 where the order ranks requests, was 2",
    ),
    "decodes that sit out before prefills": (
        {"stages": (Decodes(sits_out=True, charged=False), WHOLE)},
        "sits_out of Decodes() must be False unless",
    ),
    "decodes that sit out and are charged twice": (
        {"stages": (WHOLE, Decodes(sits_out=True))},
        "charged of Decodes() must be False where they sit out",
    ),
    "room for outputs beside vLLM's stages": (
        {"output_reserve": OutputReserve()},
        "output_reserve must be None unless the stages are",
    ),
    "room for outputs and prompts that continue last": (
        {
            "stages": (Admit(), Prefills(), Decodes()),
            "exclusive_prefill": True,
            "output_reserve": OutputReserve(),
        },
        "output_reserve must be None unless the stages are",
    ),
    "no step that receives arrivals": ({"receive_interval": 0}, "receive_interval must be 1 to"),
    "ranks and a late queue": ({"order": req.score, "requeue_late": True}, "requeue_late must be False"),
    "ranks and an order of decodes": (
        {"order": req.score, "decodes_first": True},
        "decodes_first must be False",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_composition_without_a_meaning_is_refused(name: str) -> None:
    fields, rule = REFUSED[name]
    with pytest.raises(PolicyError) as refused:
        Scheduler(**fields)
    assert rule in str(refused.value)


@pytest.mark.parametrize("field", [req.joined > 0.5, (req.joined == 1.0) | (req.score > 1)])
def test_a_class_is_not_chosen_by_when_it_was_joined(field: Any) -> None:
    with pytest.raises(PolicyError, match=r"must not read req\.joined, which starts again"):
        Scheduler(classes=[Class("first", when=field), Class("rest")])


def test_a_class_is_not_chosen_by_quanta_used_up_in_it() -> None:
    with pytest.raises(PolicyError, match=r"must not read req\.quanta, which starts again"):
        Scheduler(classes=[Class("first", when=req.quanta < 3), Class("rest")], order=Quantum(10))

"""Bytes and FLOPs, counted a second time from the log of decisions, step by step and without closed forms."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import paceline
from paceline import _native
from paceline.cost import Affine
from paceline.model import Experts, Model
from paceline.testing.strategies import policies, traces

KINDS = (
    "weight_bytes",
    "expert_bytes",
    "kv_read_bytes",
    "kv_written_bytes",
    "activation_bytes",
    "flops",
    "link_bytes",
)
MODEL = Model(
    name="small",
    layers=24,
    hidden_size=64,
    heads=4,
    kv_heads=2,
    head_dim=16,
    intermediate_size=128,
    vocab_size=1000,
    tied_embeddings=False,
    max_positions=512,
    sliding_window=8,
    sliding_layers=12,
    experts=Experts(count=8, per_token=2, intermediate_size=32),
)


def recount(wire: dict[str, Any], depth: int, trace: paceline.Trace, steps: list[Any]) -> Counter[str]:
    """Add up what each step of a decision log moved."""
    traffic = wire["traffic"]
    prompts = trace.frame["prompt_tokens"].to_list()
    generated: Counter[int] = Counter()
    moved: Counter[str] = Counter()
    loads = dict(traffic["experts"]["loads"])
    last = max(loads)

    def experts(tokens: int) -> Fraction:
        return Fraction(loads[min(tokens, last)], 2**20) if tokens else Fraction(0)

    for step in steps:
        group, groups = step["group"] or (0, 1)
        longer = group < depth % groups
        share = Fraction(depth // groups + longer, depth) if step["group"] else Fraction(1)
        sides: dict[str, list[tuple[int, int]]] = {"decode": [], "prefill": []}
        rows = 0
        for request, tokens, before, part in step["scheduled"]:
            sides["decode" if part.endswith("decode") else "prefill"].append((tokens, before))
            ends = group + 1 == groups and before + tokens >= prompts[request] + generated[request]
            if ends or part.endswith("decode"):
                generated[request] += 1
                rows += 1
        numbers = {side: sum(tokens for tokens, _ in of) for side, of in sides.items()}
        layers = Fraction(1) if sides["decode"] else share
        moved["weight_bytes"] += layers * traffic["weights"] + (traffic["head"] if rows else 0)
        together, alone = experts(sum(numbers.values())), experts(numbers["decode"])
        moved["expert_bytes"] += (share * together + (1 - share) * alone) * traffic["experts"]["bytes"]
        for name in ("activations", "flops", "link"):
            kind = {"activations": "activation_bytes", "link": "link_bytes"}.get(name, name)
            moved[kind] += rows * traffic["row"][name]
        for side, of in sides.items():
            part_of = Fraction(1) if side == "decode" else share
            token, windows = traffic[side], traffic["windows"]
            moved["activation_bytes"] += part_of * numbers[side] * token["activations"]
            moved["kv_written_bytes"] += part_of * numbers[side] * token["kv_written"]
            moved["link_bytes"] += part_of * numbers[side] * token["link"]
            moved["flops"] += part_of * numbers[side] * token["flops"]
            context = sum(before + tokens for tokens, before in of)
            pairs = sum(before + new for tokens, before in of for new in range(1, tokens + 1))
            whole = token["attention"]
            moved["kv_read_bytes"] += part_of * context * whole["context"]
            moved["flops"] += part_of * pairs * whole["pair"]
            # Bounded as sums over the step, which is how windows are stated to count.
            reach = windows["tokens"] * len(of) + (numbers[side] if side == "prefill" else 0)
            most = windows["tokens"] * numbers[side]
            moved["kv_read_bytes"] += part_of * min(context, reach) * windows[side]["context"]
            moved["flops"] += part_of * min(pairs, most) * windows[side]["pair"]
    return moved


@settings(max_examples=60)
@given(traces(), policies(), st.sampled_from([16, 40, 200]), st.none() | st.integers(0, 1500), st.booleans())
def test_every_byte_is_that_of_a_step_in_the_log(
    trace: paceline.Trace, policy: paceline.Policy, blocks: int, until: int | None, leap: bool
) -> None:
    policy = replace(policy, on_arrival="round_robin")
    instance = paceline.Instance(
        model=MODEL, cost=Affine(step_s=0.01, token_s=0.001), tensor_parallel=2, block_tokens=4,
        num_blocks=blocks, max_model_len="auto",
    )  # fmt: skip
    scheduler = policy.scheduler.to_wire(num_blocks=blocks, defaults=(2048, 256))
    wire = {**instance.to_wire(), "scheduler": scheduler}
    outcome = _native.run(
        [wire],
        _native.columns(trace, policy),
        routing="round_robin",
        until_ticks=None if until is None else until * 10**9,
        leap=leap,
        record_decisions=True,
    )
    depth = next((stage["layers"] for stage in scheduler["stages"] if stage["kind"] == "layered"), 1)
    steps = json.loads(outcome.decisions(0))
    counted = recount(wire, depth, trace, steps)
    found = json.loads(outcome.stats)["instances"][0]["traffic"]
    for name in KINDS:
        # Rounded down at the end, each of the two or three parts of a sum that a share of layers is in.
        assert 0 <= counted[name] - found[name] <= 3, name

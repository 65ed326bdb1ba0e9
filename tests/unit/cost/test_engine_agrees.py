"""The engine's arithmetic against the reference's, on a request served alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cost import Affine, Roofline
from paceline.hardware import Gpu, gpu_names
from paceline.model import Model, model_names
from paceline.policies import layered_prefill
from paceline.policy import Scheduler
from unit.cost.reference import decode, prefill, step_ticks

engine = pytest.importorskip("paceline._native", reason="needs the native module: make dev")


def replay_alone(
    cost: dict[str, Any], prompt: int, output: int, *, leap: bool, scheduler: Scheduler | None = None
) -> tuple[int, int]:
    """Return the ticks at which a single request has its first token and its last."""
    instance = {
        "blocks": 1 << 20,
        "block_tokens": 16,
        "max_model_len": None,
        "cost": cost,
        "scheduler": (scheduler or Scheduler()).to_wire(num_blocks=1 << 20, defaults=(1 << 20, 256)),
    }
    columns = {
        "arrival_ticks": np.zeros(1, np.uint64),
        "prompt_tokens": np.array([prompt], np.uint32),
        "output_tokens": np.array([output], np.uint32),
    }
    outcome = engine.run([instance], columns, routing="round_robin", leap=leap)
    return int(outcome.columns["first_token"][0]), int(outcome.columns["finish"][0])


def check(cost: dict[str, Any], prompt: int, output: int) -> None:
    first = step_ticks(cost, prefill(prompt))
    last = first + sum(step_ticks(cost, decode(1, prompt + done)) for done in range(1, output))
    for leap in (True, False):
        assert replay_alone(cost, prompt, output, leap=leap) == (first, last)


lengths = st.tuples(st.integers(1, 3000), st.integers(1, 300))


@given(lengths, st.integers(1, 10**10), st.integers(0, 10**8), st.integers(0, 10**6))
def test_affine(length: tuple[int, int], step: int, token: int, kv_token: int) -> None:
    check(Affine(step_s=step / 1e12, token_s=token / 1e12, kv_token_s=kv_token / 1e12).to_wire(), *length)


@given(
    lengths,
    st.sampled_from(model_names()),
    st.sampled_from(gpu_names()),
    st.sampled_from([1, 2, 4]),
)
def test_roofline(length: tuple[int, int], model: str, gpu: str, ranks: int) -> None:
    check(Roofline().to_wire(Model.load(model), Gpu.load(gpu), tensor_parallel=ranks), *length)


@given(lengths, st.integers(0, 10**9), st.integers(0, 10**6), st.integers(0, 10**6))
def test_roofline_across_the_point_where_attention_changes_sides(
    length: tuple[int, int], request_bytes: int, kv_bytes: int, kv_flops: int
) -> None:
    cost = Roofline().to_wire(Model.load("llama-3.1-8b"), Gpu.load("h100-sxm"))
    cost["decode_attention"] = {"request_bytes": request_bytes, "kv_bytes": kv_bytes, "kv_flops": kv_flops}
    check(cost, *length)


@given(
    st.integers(4097, 8192),
    st.integers(1, 50),
    st.sampled_from(["llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v3"]),
)
def test_a_prompt_that_goes_through_groups_of_layers(prompt: int, output: int, name: str) -> None:
    model = Model.load(name)
    cost = Roofline().to_wire(model, Gpu.load("h200"), tensor_parallel=2)
    scheduler = layered_prefill(layers=model.layers, groups=16).scheduler
    # Above 4,096 tokens there are 16 groups, of which the first take the layers that are left over.
    shape = prefill(prompt)
    first = 0
    for group in range(16):
        share = model.layers // 16 + (1 if group < model.layers % 16 else 0)
        last = group == 15
        step = replace(shape, prefill_layers=share, layers=model.layers, sampled=1 if last else 0)
        first += step_ticks(cost, step)
    end = first + sum(step_ticks(cost, decode(1, prompt + done)) for done in range(1, output))
    for leap in (True, False):
        assert replay_alone(cost, prompt, output, leap=leap, scheduler=scheduler) == (first, end)

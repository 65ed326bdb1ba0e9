"""What layers with states cost: the same at every context, and linear in a prompt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.cost import Roofline
from paceline.cost.states import states_of
from paceline.cost.traffic import traffic_wire
from paceline.hardware import Gpu
from paceline.model import Model
from unit.cost.reference import decode, prefill, step_ticks

QWEN = Model.load("qwen3-next-80b-a3b")
NEMOTRON = Model.load("nemotron-h-8b")
H200 = Gpu.load("h200")
WIRE = Roofline().to_wire(QWEN, H200, tensor_parallel=2)


def test_a_decode_reads_and_writes_its_state_whatever_its_context() -> None:
    # 36 layers of 548,864 bytes on each of two ranks, read and written at attention's 0.638 of 4.8 TB/s.
    state_s = 2 * 36 * 548_864 / (0.638 * 4.8e12)
    assert WIRE["recurrent"]["request_bytes"] / 1e12 == pytest.approx(state_s, rel=1e-6)
    assert WIRE["recurrent"]["request_decodes"] > WIRE["recurrent"]["request_bytes"]
    growth = [step_ticks(WIRE, decode(8, context)) for context in (1_000, 2_000, 3_000)]
    # Only the 12 layers with attention grow, each by its keys and values of one head, in whole picoseconds.
    assert growth[1] - growth[0] == growth[2] - growth[1]
    assert (growth[1] - growth[0]) / 1e12 == pytest.approx(8 * 1_000 * 12 * 1024 / (0.638 * 4.8e12), rel=2e-4)


def test_a_prompt_is_linear_in_its_tokens_and_reads_its_state_once_a_chunk() -> None:
    states = states_of(QWEN, 1)
    assert states is not None
    # By hand for a head of 128 x 128 and chunks of 64: five products with a key or a value, three with the
    # state, and the inverse of a triangle.
    inside = 2 * 64 * (128 + 128) + 2 * 64 * 128 * 2 + 2 * 64 * 128
    assert states.prefill_flops == 32 * (inside + 6 * 128 * 128 + 2 * 64 * 64 // 3)
    assert states.decode_flops == 32 * 7 * 128 * 128
    only = {"recurrent": WIRE["recurrent"]}
    bare = {**WIRE, "recurrent": dict.fromkeys(only["recurrent"], 0)}
    taken = [step_ticks(WIRE, prefill(n)) - step_ticks(bare, prefill(n)) for n in (1_000, 2_000, 4_000)]
    assert taken[2] - taken[1] == 2 * (taken[1] - taken[0])


def test_mamba_has_its_key_products_once_a_group() -> None:
    states = states_of(NEMOTRON, 1)
    assert states is not None
    assert states.prefill_flops == 8 * 2 * 128 * 128 + 128 * (2 * 128 * 64 + 4 * 128 * 64)
    assert states.decode_flops == 128 * 5 * 128 * 64
    assert states_of(Model.load("llama-3.1-8b"), 1) is None


def test_an_mlp_alone_has_half_of_the_reductions_and_two_matrices() -> None:
    wire = Roofline().to_wire(NEMOTRON, Gpu.load("h100-sxm"))
    up, down = wire["linears"][-2:]
    assert up["weights"] == down["weights"]
    read_s = 4096 * 21504 * 2 / (0.795 * 3.35e12)
    assert up["weights"] / 1e12 == pytest.approx(24 * (3.5e-6 + read_s), rel=1e-6)
    one = replace(NEMOTRON, mlp_layers=None, layers=28, gated_mlp=True)
    assert one.sublayers == 56


def test_traffic_has_states_of_all_ranks() -> None:
    wire = traffic_wire(QWEN, tensor_parallel=2)
    assert wire["state"] == 2 * QWEN.state_bytes(2)
    assert wire["decode"]["kv_written"] == QWEN.kv_bytes_per_token()
    assert wire["decode"]["attention"]["context"] == 2 * 12 * 1024
    # Weights once a step: all but embedding, head and routed experts.
    tables = 2 * 151936 * 2048
    assert wire["weights"] == pytest.approx(
        2 * (QWEN.parameters - tables - 48 * 512 * 3 * 2048 * 512), rel=0.05
    )
    assert traffic_wire(Model.load("llama-3.1-8b"))["state"] == 0

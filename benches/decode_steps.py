"""Compare the parts of a decode step between a roofline and measured kernels.

    python benches/decode_steps.py [--model qwen3-14b] [--gpu h100-sxm] [--profile NAME] [--context 1064]

The profile must have been imported (``paceline profiles import``). It prints milliseconds of a step of 1 to
256 decodes over ``--context`` tokens, roofline / profile: the layers' matrices, attention, the LM head, and
the rest (norms, rotary positions, activations, and time outside of kernels). The last column is the share of
the memory's bandwidth at which the profile reads the weights of the layers' matrices.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from paceline.calibration.kernels import step_seconds
from paceline.cost import Roofline
from paceline.hardware import Gpu
from paceline.kernels import Table
from paceline.model import Model

MATRICES = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")


def main() -> None:
    """Print the parts of steps of several sizes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="qwen3-14b")
    parser.add_argument("--gpu", default="h100-sxm")
    parser.add_argument("--profile", default="aisimulate/h100_sxm/vllm/0.24.0")
    parser.add_argument("--context", type=int, default=1064)
    options = parser.parse_args()
    model, gpu = Model.load(options.model), Gpu.load(options.gpu)
    table = Table(profile=options.profile)
    wires = Roofline().to_wire(model, gpu), table.to_wire(model)
    dense, layers = table.read(model).dense, model.layers
    head = Roofline().to_wire(model, gpu)["lm_head"]
    assert gpu.efficiency is not None, "Invariant: every GPU of the catalog has efficiencies"
    weights = sum(linear["weights"] for linear in wires[0]["linears"]) / 1e9 * gpu.efficiency.memory
    heads = ("matrices", "attention", "LM head", "rest", "step")
    print("decodes  " + "".join(f"{name:<16}" for name in heads) + "  weights at")
    for decodes in (1, 4, 16, 64, 256):
        seconds = step_seconds(wires[0], decodes=decodes, context=options.context)
        parts = {name: 1e3 * each for name, each in seconds.items()}
        first = max(head["weights"] + head["token_bytes"] * decodes, head["token_flops"] * decodes) / 1e9
        matrices = 1e3 * layers * sum(dense[name](decodes) for name in MATRICES)
        tokens, rows, attention = _measured(wires[1], decodes, options.context)
        pairs = (
            (parts["linears"] - first, matrices),
            (parts["attention"], attention),
            (first, rows),
            (parts["step"] + parts["tokens"], tokens - matrices),
            (sum(parts.values()), tokens + rows + attention),
        )
        columns = "".join(f"{ours:6.2f} /{theirs:6.2f}  " for ours, theirs in pairs)
        print(f"{decodes:7}  {columns}  {weights / matrices:.3f}")


def _measured(wire: dict[str, Any], decodes: int, context: int) -> tuple[float, float, float]:
    """Return milliseconds by tokens, by rows and of attention."""
    grid = wire["decode"]
    shape = [len(grid[axis]) for axis in ("tokens", "history", "requests", "context")]
    times = np.array(grid["ticks"]).reshape(shape)[0, 0]
    at_context = [np.interp(context, grid["context"], row) for row in times]
    tokens, rows = (np.interp(decodes, wire[name]["at"], wire[name]["ticks"]) for name in ("tokens", "rows"))
    attention = np.interp(decodes, grid["requests"], at_context)
    return float(tokens) / 1e9, float(rows) / 1e9, float(attention) / 1e9


if __name__ == "__main__":
    main()

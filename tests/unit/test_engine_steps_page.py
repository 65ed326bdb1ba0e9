"""docs/engine-steps.md: an engine that ran on a GPU, against kernels measured one by one on the same GPU."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> Mapping[str, Callable[[], Any]]:
    return runpy.run_path(str(ROOT / "docs/engine_steps.py"))


def test_kernels_add_up_to_the_steps_of_the_engine(script: Mapping[str, Callable[[], Any]]) -> None:
    steps = script["decodes"]()
    assert steps.height == 30
    # Between two points of the profile a product of 192 rows takes the next tile's time already.
    near = steps.filter(steps["running"] != 192)["error"]
    assert near.abs().max() < 0.04
    assert -0.03 < float(near.median()) < 0.0
    assert steps["error"].abs().max() < 0.08


def test_capped_clients_are_predicted_without_a_fit(script: Mapping[str, Callable[[], Any]]) -> None:
    means = script["closed"]()
    assert means["requests"].to_list() == [4, 24, 80, 300, 512]
    for name, most in (("e2e", 0.03), ("tpot", 0.05), ("ttft", 0.16)):
        errors = means[f"{name}_predicted"] / means[name] - 1
        assert errors.abs().max() < most, name


def test_another_model_leaves_the_same_time_beyond_its_kernels(
    script: Mapping[str, Callable[..., Any]],
) -> None:
    steps = script["decodes"](script["LLAMA"])
    assert steps.height == 30
    assert steps["error"].abs().max() < 0.06
    beyond = steps["median_ms"] - steps["predicted_ms"]
    assert 0.2 < float(beyond.median()) < 0.35


@pytest.mark.parametrize("drafts", [2, 4, 7])
def test_a_step_with_drafts_is_its_kernels_and_the_passes_of_the_drafter(
    script: Mapping[str, Callable[..., Any]], drafts: int
) -> None:
    engine = next(one for one in script["EAGLES"] if one.drafts == drafts)
    steps = script["decodes"](engine)
    assert steps.height == 11
    # Past the largest graph, of 512 tokens, launches may take longer than kernels.
    held = steps.filter(steps["running"] * (1 + drafts) <= 512)["error"]
    assert held.abs().max() < 0.08
    assert -0.07 < float(held.median()) < 0.0
    # As many drafts were accepted as vLLM was told.
    told = 1 + sum(script["ACCEPTED"][:drafts])
    large = steps.filter(steps["running"] >= 32)["tokens"]
    assert (large / told - 1).abs().max() < 0.06


def test_least_times_of_steps_explain_the_clients(script: Mapping[str, Callable[..., Any]]) -> None:
    for engine in (script["LLAMA"], *script["EAGLES"]):
        kernels, launched = (script["closed"](engine, launched=which) for which in (False, True))
        errors = [(one["e2e_predicted"] / one["e2e"] - 1).abs() for one in (kernels, launched)]
        assert errors[1].max() < errors[0].max()
        assert errors[1].max() < 0.08
        # Prompts of one request in flight are past the largest graph.
        assert kernels["ttft_predicted"][0] < 0.85 * kernels["ttft"][0]
        assert launched["ttft_predicted"][0] > 0.85 * launched["ttft"][0]


def test_a_roofline_prices_a_mixture(script: Mapping[str, Callable[..., Any]]) -> None:
    steps = script["decodes"](script["MIXTURE"])
    assert steps.height == 27
    assert steps.filter(steps["running"] > 2)["error"].abs().max() < 0.09
    assert steps["error"].abs().max() < 0.17


def test_the_page_is_the_output_of_the_command(script: Mapping[str, Callable[[], Any]]) -> None:
    page = (ROOT / "docs/engine-steps.md").read_text(encoding="utf-8")
    for name, rows in script["tables"]().items():
        assert "\n".join(rows) in page, name

"""Fits of equal cost, and the flag of a fit that is used for something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import paceline
from paceline.calibration import (
    Candidate,
    Fit,
    Observation,
    Parameter,
    Problem,
    Residual,
    Step,
    calibrate,
    load_fit,
    read_observations,
    with_equals,
)
from paceline.errors import ConfigError

ROOT = Path(__file__).resolve().parents[3]


def problem(*observations: Observation) -> Problem:
    return Problem(
        model="llama-3.1-8b",
        gpu="h100-sxm",
        parameters=(
            Parameter(name="layer_s", start=2e-5, low=1e-7, high=1e-3, lean=2.0),
            Parameter(name="step_s", start=2e-4, low=1e-7, high=1e-1, lean=2.0),
        ),
        observations=observations,
    )


ONE = Observation(name="one", of=Step(decodes=1, context=64), value=0.009, source="an example")


def test_one_step_does_not_tell_a_layers_overhead_from_a_steps() -> None:
    """32 layers of one and a step of the other add up to the same; so other starts end elsewhere."""
    given = problem(ONE)
    fit = with_equals(given, calibrate(given), starts=4)
    assert fit.starts == 4
    assert len(fit.equals) == 4
    shares = [of.fitted["step_s"] / (32 * of.fitted["layer_s"]) for of in fit.equals]
    assert max(shares) > 1.5 * min(shares)
    sums = [of.fitted["step_s"] + 32 * of.fitted["layer_s"] for of in fit.equals]
    assert sums == pytest.approx([sums[0]] * 4, rel=0.02)
    assert [of.cost for of in fit.equals] == sorted(of.cost for of in fit.equals)


def test_a_variant_is_the_fit_with_the_numbers_of_another() -> None:
    given = problem(ONE)
    fit = with_equals(given, calibrate(given), starts=2)
    for of, variant in zip(fit.equals, fit.variants(), strict=True):
        assert variant.efficiency.layer_s == of.fitted["layer_s"]
        assert variant.efficiency.memory == fit.efficiency.memory
        assert variant.fitted == of.fitted
    assert Fit.from_toml(fit.to_toml()) == fit


def test_variants_of_a_mixture_have_their_coverage_and_energy() -> None:
    fit = load_fit("h100-sxm-x2-qwen3-30b-a3b")
    assert fit.variants()
    for of, variant in zip(fit.equals, fit.variants(), strict=True):
        assert variant.coverage is not None
        assert variant.energy is not None
        points = dict(zip(variant.coverage.tokens, variant.coverage.share, strict=True))
        assert points[2048] == pytest.approx(max(of.fitted["coverage_2048"], of.fitted["coverage_512"]))
        assert points[1] == fit.coverage.share[0]  # type: ignore[union-attr]  # it has one
        assert variant.energy.busy_w == of.fitted["busy_w"]


@pytest.mark.parametrize(
    ("bound", "fitted", "pull"), [(None, 1.1, 0.953), ("at_least", 1.1, 0.0), ("at_most", 1.1, 0.953)]
)
def test_a_bound_that_is_kept_costs_nothing(bound: None, fitted: float, pull: float) -> None:
    residual = Residual(name="a", source="b", observed=1.0, fitted=fitted, tolerance=0.1, bound=bound)
    assert residual.pull == pytest.approx(pull, abs=1e-3)


def test_starts_are_at_least_one() -> None:
    given = problem(ONE)
    with pytest.raises(ConfigError, match="starts of with_equals"):
        with_equals(given, calibrate(given), starts=0)


@pytest.mark.parametrize(
    ("changed", "own"),
    [
        ({}, None),
        ({"model": "qwen3-235b-a22b", "gpu": "b200", "tensor_parallel": 8}, "qwen3-235b-a22b on 8 x b200"),
        ({"tensor_parallel": 4}, "qwen3-30b-a3b on 4 x h100-sxm"),
        ({"gpu": "h200"}, "qwen3-30b-a3b on 2 x h200"),
    ],
)
def test_a_fit_that_is_used_for_something_else_is_flagged(
    changed: dict[str, object], own: str | None
) -> None:
    fit = load_fit("h100-sxm-x2-qwen3-30b-a3b")
    settings = {"model": fit.model, "gpu": fit.gpu, "tensor_parallel": fit.tensor_parallel, **changed}
    instance = paceline.Instance(cost=fit.roofline(), max_model_len="auto", **settings)  # type: ignore[arg-type]
    expected = None if own is None else f"{own} has the fit of qwen3-30b-a3b on 2 x h100-sxm"
    assert instance.borrowed_fit == expected
    trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[10], output_tokens=[2])
    result = paceline.replay(trace, paceline.Cluster([instance, instance]))
    assert result.totals().borrowed_fits == ([] if expected is None else [expected])
    assert result.provenance.borrowed_fits == result.totals().borrowed_fits


def test_the_catalogs_efficiencies_are_no_fit() -> None:
    assert paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm").borrowed_fit is None


def test_no_observation_of_the_study_depends_on_the_number_that_is_not_fitted() -> None:
    """``experts_matmul`` is 0.4 without a source: experts are bound by memory in all that was observed."""
    name = "h100-sxm-x2-qwen3-30b-a3b"
    fit = load_fit(name)
    problem = read_observations(ROOT / f"python/paceline/catalog/fits/{name}.observations.toml")
    assert problem.sha256 == fit.observations_sha256
    assert fit.efficiency.experts_matmul == 0.4
    traces: dict[tuple[str, float, int, int, str], paceline.Trace] = {}
    for share in (0.25, 1.0):
        roofline = replace(fit.roofline(), efficiency=replace(fit.efficiency, experts_matmul=share))
        candidate = Candidate(
            roofline=roofline,
            model=problem.resolved_model(),
            gpu=fit.resolved_gpu(),
            tensor_parallel=fit.tensor_parallel,
            traces=traces,
        )
        for of, residual in zip(problem.observations, fit.residuals, strict=True):
            assert of.of.predict(candidate) == pytest.approx(residual.fitted, rel=1e-12), of.name

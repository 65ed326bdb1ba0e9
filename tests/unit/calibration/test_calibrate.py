"""Fitting a roofline to observations, and saving the fit."""

from __future__ import annotations

import dataclasses
import hashlib
from importlib import resources
from pathlib import Path

import pytest

import paceline
from paceline.calibration import (
    Candidate,
    Fit,
    Observation,
    Parameter,
    Problem,
    Prompt,
    Serving,
    Step,
    calibrate,
    fit_names,
    load_fit,
    read_observations,
)
from paceline.cost import Coverage, Efficiency, Roofline
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.model import Model
from paceline.policies import authors_chunked

TRUTH = {"memory": 0.71, "matmul": 0.45, "attention_matmul": 0.33, "layer_s": 41e-6, "step_s": 900e-6}

CHUNKS = authors_chunked(max_num_batched_tokens=1024)

# One token waits for memory, thousands for arithmetic, long histories for attention's.
WORK = {
    "one decode": Step(decodes=1, context=64),
    "two layers' worth of overhead": Step(decodes=2, context=16),
    "a prompt": Step(prefill=4096),
    "a longer prompt": Step(prefill=8192),
    "a late chunk": Step(prefill=512, history=24_000),
    "a prompt in chunks": Prompt(tokens=8192, chunk=512),
    "kernels of a prompt in chunks": Prompt(tokens=8192, chunk=512, kernels_only=True),
    "decodes beside a chunk": Step(decodes=32, context=2048, prefill=480, history=512),
}


def _efficiency(**changed: float) -> Efficiency:
    given = Gpu.load("h100-sxm").efficiency
    assert given is not None
    return dataclasses.replace(given, **changed)  # type: ignore[arg-type]


def _candidate(roofline: Roofline, model: str = "llama-3.1-8b", ranks: int = 1) -> Candidate:
    return Candidate(
        roofline=roofline, model=Model.load(model), gpu=Gpu.load("h100-sxm"), tensor_parallel=ranks
    )


def _problem(truth: dict[str, float], **changed: object) -> Problem:
    known = _candidate(Roofline(efficiency=_efficiency(**truth)))
    return Problem(
        model="llama-3.1-8b",
        gpu="h100-sxm",
        parameters=tuple(
            Parameter(name=name, start=0.6 * value, low=value / 8, high=value * 8 if value < 0.1 else 1.0)
            for name, value in truth.items()
        ),
        observations=tuple(
            Observation(name=name, of=work, value=work.predict(known), source="a known roofline")
            for name, work in WORK.items()
        ),
        **changed,  # type: ignore[arg-type]
    )


def test_known_efficiencies_are_recovered_from_what_they_predict() -> None:
    pytest.importorskip("scipy")
    fit = calibrate(_problem(TRUTH))
    for name, value in TRUTH.items():
        assert fit.fitted[name] == pytest.approx(value, rel=0.01), name
        assert getattr(fit.efficiency, name) == fit.fitted[name]
    assert max(abs(of.off) for of in fit.residuals) < 1e-3
    assert fit.at_bound == ()


def test_the_same_problem_gives_the_same_fit_to_the_bit() -> None:
    pytest.importorskip("scipy")
    assert calibrate(_problem(TRUTH)).to_toml() == calibrate(_problem(TRUTH)).to_toml()


def test_a_bound_that_holds_changes_no_parameter() -> None:
    pytest.importorskip("scipy")
    problem = _problem(TRUTH)
    slack = Observation(
        name="at most an hour",
        of=Step(decodes=1, context=64),
        value=3600,
        bound="at_most",
        tolerance=1e-6,
        source="a bound that holds",
    )
    loose = dataclasses.replace(problem, observations=(*problem.observations, slack))
    assert calibrate(loose).fitted == pytest.approx(calibrate(problem).fitted, rel=1e-6)


def test_a_parameter_at_its_bound_is_named() -> None:
    pytest.importorskip("scipy")
    problem = _problem({"layer_s": 41e-6})
    tight = dataclasses.replace(
        problem, parameters=(Parameter(name="layer_s", start=10e-6, low=1e-6, high=20e-6),)
    )
    assert calibrate(tight).at_bound == ("layer_s",)


@pytest.mark.parametrize(
    ("model", "ranks"), [("llama-3.1-8b", 1), ("qwen3-30b-a3b", 2), ("gpt-oss-20b", 1), ("deepseek-v3", 8)]
)
def test_kernels_add_up_to_what_the_engine_takes(model: str, ranks: int) -> None:
    gpu = "h100-sxm" if model != "deepseek-v3" else "b200"
    given = Gpu.load(gpu)
    roofline = Roofline(efficiency=_efficiency())
    candidate = Candidate(roofline=roofline, model=Model.load(model), gpu=given, tensor_parallel=ranks)
    trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[3000], output_tokens=[3])
    instance = paceline.Instance(
        model=model, gpu=gpu, tensor_parallel=ranks, cost=roofline, max_model_len="auto"
    )
    result = paceline.replay(
        trace, paceline.Cluster([instance]), authors_chunked(max_num_batched_tokens=1024)
    )
    # The engine samples a row only where a prompt ends.
    whole = [candidate.kernels(prefill=n, history=at) for at, n in ((0, 1024), (1024, 1024), (2048, 952))]
    row = sum(candidate.kernels(decodes=1, context=1).values()) - sum(
        part for name, part in candidate.kernels(decodes=1, context=1).items() if name != "linears"
    )
    ttft = sum(sum(parts.values()) for parts in whole)
    assert result.requests["ttft"][0] == pytest.approx(ttft, rel=0.02, abs=2 * row)
    first, second = (sum(candidate.kernels(decodes=1, context=context).values()) for context in (3001, 3002))
    gaps = result.requests["e2e"][0] - result.requests["ttft"][0]
    assert gaps == pytest.approx(first + second, rel=1e-6)


def test_points_of_the_coverage_are_fitted_and_never_fall() -> None:
    pytest.importorskip("scipy")
    given = Coverage.load("qwen3-30b-a3b-sharegpt")
    known = Coverage(tokens=(*given.tokens[:7], 512), share=(*given.share[:7], 0.81))
    made = _candidate(Roofline(efficiency=_efficiency(), coverage=known), "qwen3-30b-a3b", 2)
    work = Step(prefill=512)
    fit = calibrate(
        Problem(
            model="qwen3-30b-a3b",
            gpu="h100-sxm",
            tensor_parallel=2,
            coverage="qwen3-30b-a3b-sharegpt",
            coverage_until=64,
            parameters=(Parameter(name="coverage_512", start=0.95, low=0.5, high=1.0),),
            observations=(
                Observation(name="a chunk", of=work, value=work.predict(made), source="a known curve"),
            ),
        )
    )
    assert fit.coverage is not None
    assert fit.coverage.tokens == known.tokens
    assert fit.coverage.share[-1] == pytest.approx(0.81, rel=1e-3)


def test_serving_is_the_median_of_replays_of_drawn_traces() -> None:
    candidate = _candidate(Roofline())
    work = Serving(metric="ttft_mean", workload="azure-conv", rate=4.0, chunk=512, requests=30, seeds=3)
    instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm", max_model_len="auto")
    means = []
    for seed in range(3):
        trace = paceline.synthesize("azure-conv", requests=30, rate=4.0, seed=seed)
        result = paceline.replay(trace, paceline.Cluster([instance]), authors_chunked())
        means.append(result.requests["ttft"].mean())
    assert work.predict(candidate) == pytest.approx(sorted(means)[1])


def test_a_fit_reads_back_what_it_wrote() -> None:
    pytest.importorskip("scipy")
    fit = calibrate(_problem(TRUTH))
    assert Fit.from_toml(fit.to_toml()) == fit


@pytest.mark.parametrize("name", fit_names())
def test_a_fit_in_the_catalog_is_of_the_observations_beside_it(name: str) -> None:
    fit = load_fit(name)
    file = resources.files("paceline.catalog") / "fits" / f"{name}.observations.toml"
    assert fit.observations_sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert all(of.source for of in fit.residuals)
    candidate = Candidate(
        roofline=fit.roofline(),
        model=Model.load(fit.model),
        gpu=fit.resolved_gpu(),
        tensor_parallel=fit.tensor_parallel,
    )
    with resources.as_file(file) as path:
        observed = {of.name: of.of for of in read_observations(path).observations}
    for of in fit.residuals:
        if not isinstance(observed[of.name], Serving):
            assert observed[of.name].predict(candidate) == pytest.approx(of.fitted, rel=1e-9), of.name


def test_the_fit_of_two_h100_knows_nothing_but_the_chunked_side() -> None:
    sources = {of.source.partition(" ")[0] for of in load_fit("h100-sxm-x2-qwen3-30b-a3b").residuals}
    assert sources == {"Figure", "Table"}
    tables = {of.source for of in load_fit("h100-sxm-x2-qwen3-30b-a3b").residuals}
    assert all(source.startswith(("Figure 2", "Table 2")) for source in tables)


def test_steps_are_read_from_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("name,prefill,decodes,context,seconds,source\na,512,,,0.02,mine\nb,,4,100,0.01,mine\n")
    problem = read_observations(path, model="llama-3.1-8b", gpu="h100-sxm", fit=("layer_s", "matmul"))
    assert [of.of for of in problem.observations] == [Step(prefill=512), Step(decodes=4, context=100)]
    assert [of.name for of in problem.parameters] == ["layer_s", "matmul"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('gpu = "h100-sxm"', "model of .* must be a name of the catalog, was None"),
        ('model = "qwen3-8b"\ngpu = "h100-sxm"\nanswer = 42', "has no use for answer"),
        ('model = "qwen3-8b"\ngpu = "h100-sxm"', "parameters of a Problem must be one or more"),
        (
            'model = "qwen3-8b"\ngpu = "h100-sxm"\n[[parameters]]\nname = "memroy"',
            "there is no parameter 'memroy'; close to it: memory",
        ),
        (
            'model = "qwen3-8b"\ngpu = "h100-sxm"\n[[parameters]]\nname = "memory"\n'
            '[[observations]]\nkind = "guess"',
            "kind of observation 0 of .* must be one of step, prompt, serving, benchmark, was 'guess'",
        ),
        (
            'model = "qwen3-8b"\ngpu = "h100-sxm"\n[[parameters]]\nname = "memory"\n'
            '[[observations]]\nkind = "step"\nname = "a"\nvalue = -1.0\nsource = "b"\nprefill = 1',
            "value of observation 'a' must be a finite number above 0, was -1.0",
        ),
    ],
)
def test_the_error_says_what_is_wrong_with_a_file(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "observations.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_observations(path)

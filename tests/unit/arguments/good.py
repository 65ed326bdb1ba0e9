"""Valid values for the parameters of the public API, and objects with methods to call."""

from __future__ import annotations

from functools import cache
from typing import Any

import polars as pl

import paceline
from paceline import (
    SLO,
    Affine,
    Cluster,
    Energy,
    Instance,
    Links,
    Pace,
    Policy,
    Roofline,
    Scheduler,
    Trace,
    calibration,
    cluster,
    cost,
    inst,
    kernels,
    policies,
    rank,
    req,
    synthesis,
)
from paceline.deployment import Medium, kv_memory
from paceline.hardware import Gpu
from paceline.hosts import EngineHost
from paceline.model import Experts, Model, stages
from paceline.policy import Displace, Groups, Live, Pools, Quantum, Refresh, Swap, migrate, pick
from paceline.policy.expressions.wire import Names

TRACE = Trace.from_columns(
    arrival=[0.0, 0.5, 1.0], prompt_tokens=[8, 9, 10], output_tokens=[2, 3, 4], name="three"
)
MODEL = Model.load("llama-3.1-8b")
GPU = Gpu.load("h100-sxm")
INSTANCE = Instance(cost=Affine(step_s=0.01), num_blocks=101)
SMALL = Cluster([INSTANCE])
CURVE = kernels.Curve(at=(1, 8), seconds=(1e-6, 2e-6))
GRID = kernels.Grid.of([(0, 0, n, c, 1e-6 * n * c) for n in (1, 8) for c in (16, 64)])
PICK = pick(min=inst.requests)
STEP = calibration.Step(decodes=1, context=64)
OBSERVATION = calibration.Observation(name="one", of=STEP, value=0.01, source="a test")
PARAMETER = calibration.Parameter(name="memory", start=0.5, low=0.1, high=1.0)
PROBLEM = calibration.Problem(
    model="llama-3.1-8b", gpu="h100-sxm", parameters=(PARAMETER,), observations=(OBSERVATION,)
)
CANDIDATE = calibration.Candidate(roofline=Roofline(), model=MODEL, gpu=GPU, tensor_parallel=1)
EFFICIENCY = cost.Efficiency(
    memory=0.5, matmul=0.5, attention_memory=0.5, attention_matmul=0.5, layer_s=1e-5, step_s=1e-3
)
FRAME = pl.DataFrame(
    {
        "prompt": ["a", "b", "c", "d"],
        "model": ["a"] * 4,
        "score": [1.0, 2.0, 3.0, 4.0],
        "output_tokens": [3, 40, 400, 4000],
    }
)
PROFILE = kernels.KernelProfile(name="toy", source="a test", dense={"qkv": CURVE}, per_sequence={"lm": CURVE})


@cache
def result() -> paceline.Result:
    """Return the result of a small replay."""
    return paceline.replay(TRACE, SMALL)


@cache
def ranker() -> rank.Ranker:
    """Return a ranker that was trained on two prompts."""
    return rank.PairwiseRanker(bits=8, steps=2, held_out=0).fit(["a colour", "an essay"], [2, 400])


BY_NAME: dict[str, Any] = {
    "accept": inst.requests > 1,
    "activated": 1.0,
    "alpha": 0.5,
    "arrival": [0.0, 1.0],
    "at": (1, 8),
    "axes": None,
    "block_bytes": 1e6,
    "by": ("model",),
    "bytes_per_s": 1e9,
    "candidate": CANDIDATE,
    "choose": pick(min=req.kv_tokens),
    "chunk": 512,
    "cluster": SMALL,
    "condition": inst.requests > 1,
    "config": {"a": 1},
    "content": {"a": 1},
    "cost": Affine(step_s=0.01),
    "count": 4,
    "cpu_blocks": 10,
    "cv": 2.0,
    "defaults": (2048, 128),
    "directory": "made/result",
    "efficiency": EFFICIENCY,
    "end_s": 2.0,
    "factor": 2.0,
    "fields": {"a": 1},
    "first": [0],
    "fitted": {"memory": 0.5},
    "frame": pl.DataFrame({"arrival": [0.0], "prompt_tokens": [1], "output_tokens": [1]}),
    "gbps": 100.0,
    "gpu": GPU,
    "gpus": 1,
    "groups": Groups(limits=((8192, 4),), most=8),
    "hbm_j_per_byte": 1e-11,
    "high": 9,
    "idle_w": 100.0,
    "instance": INSTANCE,
    "instances": [INSTANCE],
    "j_per_flop": 1e-12,
    "kind": "models",
    "last_blocks": 1,
    "label": [1],
    "layers": 32,
    "lengths": [3, 4],
    "low": 1,
    "mean": 100.0,
    "median": 50.0,
    "memory_bytes": 1e9,
    "model": MODEL,
    "name": "llama-3.1-8b",
    "names": Names(),
    "num_blocks": 101,
    "observations": (OBSERVATION,),
    "of": STEP,
    "operand": inst.requests,
    "otherwise": 1.0,
    "output_tokens": [1, 2],
    "p99": 900.0,
    "pairs": [(1, 1e-6), (8, 2e-6)],
    "parameters": (PARAMETER,),
    "path": "made/file.csv",
    "pipeline_parallel": 1,
    "points": (1, 2),
    "policy": policies.vllm(),
    "problem": PROBLEM,
    "profile": PROFILE,
    "prompts": ["a colour", "an essay"],
    "prompt_tokens": [1, 2],
    "ranks": 2,
    "rate": 1.0,
    "requests": 10,
    "residuals": (),
    "result": None,
    "roofline": Roofline(),
    "rows": [(0, 0, 1, 16, 1e-6)],
    "scores": [1.0, 2.0],
    "second": [1],
    "seconds": 1.0,
    "seed": 0,
    "settings": {},
    "share": (0.5, 1.0),
    "sigma": 0.5,
    "size": 2,
    "slo": SLO(ttft=1.0),
    "source": PICK,
    "span_s": 600,
    "stages": 2,
    "start_s": 0,
    "step_s": 0.01,
    "target": PICK,
    "tau": 0.5,
    "tensor_parallel": 1,
    "text": "",
    "then": 1.0,
    "ticks_per_s": 1e12,
    "tokens": 16,
    "tpot": 0.1,
    "trace": TRACE,
    "traces": [TRACE],
    "wait_s": 1.0,
    "what": "a test",
    "workload": "azure-conv",
}
"""Values by a parameter's name, for names that mean the same everywhere."""

BY_PLACE: dict[str, Any] = {
    "assert_equivalent.examples": 1,
    "calibrate.problem": PROBLEM,
    "Class.name": "some",
    "Curve.seconds": (1e-6, 2e-6),
    "Experts.intermediate_size": 1024,
    "Experts.per_token": 2,
    "Fit.gpu": "h100-sxm",
    "Fit.model": "llama-3.1-8b",
    "EngineHost.engine": "vllm",
    "EngineHost.first": "0.1",
    "EngineHost.holds_for.version": "0.19.0",
    "EngineHost.last": "0.2",
    "EngineHost.load.name": "vllm-0.23",
    "EngineHost.of.engine": "vllm",
    "EngineHost.of.version": "0.19.0",
    "Link.seconds.size": 1e6,
    "Link.seconds.what": "all_reduce",
    "Observation.value": 0.01,
    "Observation.source": "a test",
    "Parameter.high": 1.0,
    "Parameter.low": 0.1,
    "Parameter.name": "memory",
    "Parameter.start": 0.5,
    "Skew.of.rows": [(1, 2, 0.5, 1.0, 2.0, 1.5)],
    "Policy.name": "mine",
    "Pools.roles.instances": 3,
    "Policy.to_wire.instances": 3,
    "Problem.gpu": "h100-sxm",
    "Problem.model": "llama-3.1-8b",
    "Quantiles.points": ((0.0, 1), (1.0, 9)),
    "Sample.counts": [1, 2],
    "Serving.metric": "ttft",
    "Serving.rate": 1.0,
    "SuiteResult.folder": "made/suite",
    "SuiteResult.of": 1,
    "SuiteResult.points": [],
    "SuiteResult.refused": [],
    "SuiteResult.unread": [],
    "Table.profile": "made/profile",
    "suite.folder": "made/suite",
    "version_key.version": "0.19.0",
    "cross_model.folds": 2,
    "cross_model.frame": FRAME,
    "cross_model.ranker": lambda: rank.PairwiseRanker(bits=8, steps=2, held_out=0),
    "cross_model.resamples": 2,
    "tau_by.frame": FRAME,
    "Trace.window.start_s": 0.0,
    "Coverage.tokens": (1, 2),
    "layered_prefill.layers": 32,
    "preset.name": "azure-conv",
    "load_fit.name": "h100-sxm",
    "read_profile.path": "made/profile",
    "Gpu.load.name": "h100-sxm",
    "assert_no_starvation.bound_s": 1.0,
}
"""Values by class, function and parameter, for all other parameters."""


@cache
def objects() -> tuple[object, ...]:
    """Return objects of the public classes; the tests call their methods."""
    return (
        TRACE,
        MODEL,
        GPU,
        INSTANCE,
        SMALL,
        CURVE,
        GRID,
        PROFILE,
        STEP,
        PROBLEM,
        CANDIDATE,
        EFFICIENCY,
        EngineHost.load("vllm-0.12"),
        result(),
        result().stats,
        result().stats.instances[0],
        result().provenance,
        result().totals(),
        SLO(ttft=1.0),
        Affine(step_s=0.01),
        Energy(idle_w=1.0, hbm_j_per_byte=1e-11, j_per_flop=1e-12),
        Links(gbps=1.0),
        Medium(gbps=1.0),
        Pace(tpot=0.1),
        Roofline(),
        Scheduler(),
        Policy(name="mine", pools=Pools(some=1, rest=2), pace=Pace(tpot=0.1)),
        Pools(some=1, rest=2),
        Quantum(500),
        Refresh(steps=1),
        Displace(),
        Swap(cpu_blocks=10),
        Live(stages=1, last_blocks=1),
        migrate(source=PICK, target=PICK, choose=pick(min=req.kv_tokens)),
        PICK,
        inst,
        req,
        cluster,
        inst.requests,
        inst.requests > 1,
        req.phase,
        kv_memory(MODEL, GPU),
        stages(MODEL, 1)[0],
        Experts(count=8, per_token=2, intermediate_size=64),
        kernels.Link(bytes_per_s=1e9),
        kernels.Shape.of(MODEL),
        synthesis.Poisson(),
        synthesis.Gamma(cv=2.0),
        synthesis.Regular(),
        synthesis.Bursts(size=2),
        synthesis.Constant(5),
        synthesis.Uniform(low=1, high=5),
        synthesis.Lognormal(median=5.0, sigma=0.5),
        synthesis.Sample([1, 2]),
        synthesis.Empirical([1, 2], [3, 4]),
        synthesis.preset("azure-conv"),
        calibration.Prompt(tokens=16, chunk=16),
        ranker(),
        rank.Calibration.fit([1.0, 2.0], [3, 4]),
        rank.draw_pairs([1, 2]),
        rank.tau_with_interval([1, 2], [3, 4], resamples=2),
    )

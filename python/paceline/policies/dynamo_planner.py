"""Instances that start and stop by predicted traffic, as NVIDIA Dynamo's planner decides by throughput."""

from __future__ import annotations

from functools import reduce
from typing import Final, Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.switched import PRESENT, switched
from paceline.policies.vllm import vllm
from paceline.policy import Policy, Scheduler, cluster, gauge, inst, maximum, minimum, scale, where
from paceline.policy.expressions.tree import Expr
from paceline.policy.wire import Action

__all__ = ["dynamo_planner"]

_MOST_CHUNKS: Final = 8
"""Steps that the prefill of a prompt, with what is prefilled beside it, may take at most."""

_UNBOUNDED: Final = 1e15

_DEFAULTS: Final = (8192, 1024)
"""Tokens and requests of a step on an H100, where the scheduler leaves them open."""

_COUNTERS: Final[dict[str, Expr]] = {
    "arrived": inst.arrived,
    "arrived_tokens": inst.arrived_tokens,
    "finished": inst.finished,
    "finished_tokens": inst.finished_tokens,
}


@typed(PolicyError)
def dynamo_planner(
    *,
    step_s: tuple[float, float, float],
    ttft_s: float = 0.5,
    itl_s: float = 0.05,
    metrics: Literal["frontend", "router"] = "frontend",
    serving: int = 1,
    off: int = 1,
    least: int = 1,
    most: int | None = None,
    period_s: float = 180.0,
    start_s: float = 60.0,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Have as many instances as the traffic of the latest interval needs within two objectives.

    The traffic is how many requests there were in the interval, the mean prompt of those that arrived and
    the mean answer of those that finished; it is expected to stay. A linear model of a step's time says how
    many requests an instance may decode at once until the time between tokens, or to the first token, is
    above its objective. By Little's law that is a rate, and the rate of the traffic over it is the number of
    instances, rounded up. An instance that is told to stop gets no requests, and stops when its last one
    finishes. In an interval in which no request arrives, or none finishes, nothing changes.

    Parameters
    ----------
    step_s
        Seconds of a step, seconds more for each prompt token in it, and for each token of the KV that its
        decodes read. The planner fits these to steps that it measures; here they are given, for instance by
        least squares over the steps of a recorded replay.
    ttft_s, itl_s
        The objectives: seconds to the first token and between two tokens (``ttft`` and ``itl``, in
        milliseconds there).
    metrics
        What counts the requests: ``frontend``, whose counter has a request when it finishes, or ``router``,
        whose counter has it when it arrives (``throughput_metrics_source``). Where instances are short,
        requests finish only as fast as they are served, so the first shows no more than that.
    serving, off
        Instances that serve at the start, and those that may be started.
    least, most
        Bounds of the instances that serve or start (``min_endpoint``, ``max_gpu_budget``); None: all.
    period_s
        Seconds between two decisions, and of an interval (``throughput_adjustment_interval``).
    start_s
        Seconds from the decision until the instance serves. It depends on model and host: no
        source gives it.
    scheduler
        How instances form their steps; None: as vLLM. Its limits of tokens and requests bound what is decoded
        at once; those that it leaves to the instance are taken to be 8,192 and 1,024.

    Returns
    -------
    Policy
        The policy, for a cluster of ``serving + off`` instances.

    Raises
    ------
    PolicyError
        If a number of `step_s` or an objective is not above 0.

    Examples
    --------
    >>> policy = dynamo_planner(step_s=(6e-3, 2e-5, 8e-8), serving=2, off=6, start_s=90.0)
    >>> [seconds for seconds, _ in policy.monitors]
    [180.0]

    Notes
    -----
    Source: ai-dynamo/dynamo at 0c9050c9, ``planner/core/throughput_scaling.py`` (``_throughput_agg``, for
    prefill and decode on the same instances), ``planner/core/perf_model/agg.py`` at 518a7027, and the
    defaults of ``planner/config/defaults.py`` at 1ca60155; what the counters have, in
    ``lib/llm/src/http/service/metrics.rs``. Differences: a prompt counts when it arrives, where the front end
    has it with the first token; the next interval is predicted to be
    as the latest (``load_predictor="constant"``, where the default is ARIMA); the model of a step does not
    learn; the batch is a real number until it is rounded down, where the source rounds tokens; hits of a
    prefix cache do not shorten prompts; scaling by load, for which throughput is a lower bound, is
    `autoscaled`; the instance that stops is the one with the fewest requests.
    """
    coefficients = {f"step_s[{i}]": value for i, value in enumerate(step_s)}
    for name, value in {"ttft_s": ttft_s, "itl_s": itl_s, **coefficients}.items():
        if not 0 < value < float("inf"):
            raise PolicyError(f"{name} of dynamo_planner() must be above 0 and finite, was {value!r}")
    limits = (vllm().scheduler_of(0) if scheduler is None else scheduler).limits(defaults=_DEFAULTS)
    since = {name: cluster.sum(now - inst.gauge(name)) for name, now in _COUNTERS.items()}
    prompt, output, batch = inst.gauge("prompt"), inst.gauge("output"), inst.gauge("batch")
    size = scale(
        since["finished" if metrics == "frontend" else "arrived"]
        / period_s
        * cluster.max(inst.gauge("answer_s")),
        pool="serving",
        off="off",
        when=(since["arrived"] > 0) & (since["finished"] > 0),
        least=least,
        most=most,
    )
    # Gauges of the same run are the parts of the formula, in their order. The last ones keep the counters
    # for the next run.
    parts = [
        gauge("prompt", since["arrived_tokens"] / since["arrived"]),
        gauge("output", since["finished_tokens"] / since["finished"]),
        gauge("batch", _batch(prompt, output, step_s, objectives=(ttft_s, itl_s), limits=limits)),
        gauge("answer_s", output * _step(batch, prompt, output, step_s, limits) / batch),
    ]
    kept = [gauge(name, now) for name, now in _COUNTERS.items()]
    actions: list[Action] = [*parts, size, *kept]
    every = [(period_s, actions)]
    return switched("dynamo_planner", every, serving=serving, off=off, start_s=start_s, scheduler=scheduler)


def _step(
    batch: Expr, prompt: Expr, output: Expr, step_s: tuple[float, float, float], limits: tuple[int, int]
) -> Expr:
    """Return the seconds of a step with that many decodes, and a prefill for each request that finishes."""
    fixed, per_token, per_kv = step_s
    prefilled = minimum(batch * prompt / output, limits[0])
    return fixed + per_token * prefilled + per_kv * batch * (prompt + output / 2)


def _batch(
    prompt: Expr,
    output: Expr,
    step_s: tuple[float, float, float],
    *,
    objectives: tuple[float, float],
    limits: tuple[int, int],
) -> Expr:
    """Return the most requests that an instance decodes at once within the objectives, at least 1."""
    (ttft, itl), (tokens, requests) = objectives, limits
    fixed, per_token, per_kv = step_s
    context, share = prompt + output / 2, prompt / output

    def within(seconds: Expr | float, steps: int) -> Expr:
        """Return for how many decodes the prompt tokens of one step and the KV of some steps take a time.

        With more decodes there are more prompt tokens, up to the limit of a step.
        """
        per_decode = steps * per_kv * context
        return maximum(
            seconds / (per_token * share + per_decode), (seconds - per_token * tokens) / per_decode
        )

    def first_token(steps: int) -> Expr:
        """Return the same for a further prompt, whose prefill and that beside it takes at most some steps."""
        room = steps * tokens - prompt
        return minimum(
            within(ttft - steps * fixed - per_token * prompt, steps),
            where(room >= tokens, _UNBOUNDED, room / share),
        )

    capacity = cluster.min(inst.total_blocks * inst.block_tokens, within=PRESENT)
    most = minimum(capacity // context, requests, tokens - 1, tokens - share)
    prefills = reduce(maximum, (first_token(steps) for steps in range(1, _MOST_CHUNKS + 1)))
    return maximum(minimum(most, within(itl - fixed, 1), prefills) // 1, 1)

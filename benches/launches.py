"""Fit the front end and the launches of prompts together, by configuration.

    python benches/launches.py --suite DIR --host trtllm-1.3 [--most 64] [--graphs]

A front end that was fitted without launches may contain them. So every point of a host's versions is replayed
with each pair of a front end and a time to launch a layer of a step with prompts, whatever the model; the
steps then take at least so long. ``--graphs`` leaves out steps of up to 512 tokens, which vLLM has in CUDA
graphs. By configuration, which is a GPU, a model and an engine's version, a row has the points, what ships
(none, where launches are not the model's), and the pair with the least median error of TTFT, without launches
and with them: milliseconds, then the median and the ninetieth percentile of the errors' sizes and the median
error. Runs of one server and load count once. Points with more than ``--most`` requests in flight are left
out, as TTFT is then the queue's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from carry_over import configuration, measured

from paceline.deployment import Cluster, CudaGraphs, Instance
from paceline.errors import PacelineError
from paceline.hosts import EngineHost
from paceline.validation.points import Point
from paceline.validation.points.predicting import predict_point
from paceline.validation.points.serving import Unserved, cluster_of, host_of, policy_of, profiles

#: What is tried, as shares of the shipped front end, and seconds of a layer.
FRONTS = (0.2, 0.5, 1.0, 1.5)
LAYERS = (0.0, 0.4e-3, 0.8e-3, 1.2e-3, 1.6e-3, 2.0e-3)
#: Tokens of vLLM's largest CUDA graph on Hopper.
LARGEST = 512
Pair = tuple[float, float]


def main() -> None:
    """Print a row for each configuration."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--most", type=int, default=64)
    parser.add_argument("--graphs", action="store_true", help="steps of up to 512 tokens have no launches")
    given = parser.parse_args()
    host, known = EngineHost.load(given.host), profiles()
    groups: dict[str, dict[Any, Point]] = {}
    for point in measured(given.suite):
        own = host_of(point.server, "tables")
        if own is None or own.name != host.name or "ttft" not in point.measured:
            continue
        if point.workload.kind == "closed loop" and point.in_flight <= given.most:
            load = (point.server, repr(point.workload), point.statistic)
            groups.setdefault(configuration(point), {}).setdefault(load, point)
    print("| configuration | points | as it ships | without launches | with launches |")
    print("|---|---:|---|---|---|")
    floor = past_graphs if given.graphs else any_prompt
    for name, points in sorted(groups.items()):
        with ThreadPoolExecutor(2) as pool:
            each = pool.map(partial(errors, host, known=known, floor=floor), points.values())
            found = [one for one in each if one]
        if found:
            print(row(name, host, found), flush=True)


def any_prompt(instance: Instance, seconds: float) -> Instance:
    """Return an instance whose steps with prompts take at least so long."""
    return replace(instance, prompt_step_s=seconds)


def past_graphs(instance: Instance, seconds: float) -> Instance:
    """Return an instance whose steps past the largest graph take at least so long."""
    return replace(instance, cuda_graphs=CudaGraphs(sizes=(LARGEST,), eager_step_s=seconds))


def errors(
    host: EngineHost, point: Point, *, known: Mapping[Any, Any], floor: Callable[[Instance, float], Instance]
) -> dict[Pair | None, float]:
    """Return the error of a point by front end and launches, and as it ships; empty if it has no tables."""
    try:
        plain = cluster_of(point.server, "tables", known, hosts=False)
        shipped = host_of(point.server, "tables")
        assert shipped is not None, "Invariant: points without a host are left out"
        found: dict[Pair | None, float] = {None: error(point, shipped.on(plain), shipped)}
        for share in FRONTS:
            own = replace(shipped, frontend_s=share * host.frontend_s, latent_layer_s=0.0, prompt_step_s=0.0)
            for layer in (0.0,) if point.server.prompt_graphs else LAYERS:
                cluster = launched(own.on(plain), layer, floor)
                found[own.frontend_s, layer] = error(point, cluster, own)
    except (Unserved, PacelineError):
        return {}
    for front, layer in [(share * host.frontend_s, layer) for share in FRONTS for layer in LAYERS]:
        found.setdefault((front, layer), found[front, 0.0])
    return found


def launched(cluster: Cluster, layer: float, floor: Callable[[Instance, float], Instance]) -> Cluster:
    """Return a cluster whose layers take so long to launch."""
    if not layer:
        return cluster
    changed = {
        one: floor(one, one.resolved_model.layers * layer)
        for one in dict.fromkeys(cluster.instances)
        if one.resolved_model is not None
    }
    return replace(cluster, instances=tuple(changed[one] for one in cluster.instances))


def error(point: Point, cluster: Cluster, host: EngineHost) -> float:
    """Return the relative error of TTFT."""
    values = predict_point(point, cluster, policy_of(point.server), frontend_token_s=host.frontend_token_s)
    return values["ttft"] / point.measured["ttft"] - 1


def row(name: str, host: EngineHost, found: Sequence[Mapping[Pair | None, float]]) -> str:
    """Return a row of the table."""
    pairs = [(share * host.frontend_s, layer) for share in FRONTS for layer in LAYERS]
    bare = [pair for pair in pairs if not pair[1]]

    def best(of: Iterable[Pair]) -> str:
        pair = min(of, key=lambda one: float(np.median([abs(errors[one]) for errors in found])))
        return f"{1e3 * pair[0]:.3g} and {1e3 * pair[1]:.2g} ms: {score([one[pair] for one in found])}"

    shipped = score([one[None] for one in found])
    return f"| {name} | {len(found)} | {shipped} | {best(bare)} | {best(pairs)} |"


def score(values: Sequence[float]) -> str:
    """Return the median and the ninetieth percentile of the sizes, and the median error, in per cent."""
    of = 100 * np.array(values)
    return f"{np.median(np.abs(of)):.1f}, {np.quantile(np.abs(of), 0.9):.0f} ({np.median(of):+.1f})"


if __name__ == "__main__":
    main()

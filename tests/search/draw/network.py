"""The network: ports, nodes, and what they share."""

from __future__ import annotations

from itertools import accumulate

from search.draw.expressions import Wire
from search.draw.source import Source


def network(source: Source, instances: int) -> Wire:
    """Draw a network: half of them have a port of each instance and nothing else."""
    drawn = _rate(source)
    if source.chance(0.5):
        return drawn
    last = instances - 1
    if source.chance(0.3):
        drawn["curve"] = _curve(source)
    if source.chance(0.7):
        drawn["nodes"] = [source.whole(0, last) for _ in range(instances)]
    for shared in ("inner", "uplink", "fabric"):
        if source.chance(0.4):
            drawn[shared] = _speed(source)
    if source.chance(0.3):
        port = {"inner": source.maybe(0.5, lambda: _speed(source)), "outer": _speed(source)}
        drawn["ports"] = [{"instance": source.whole(0, last), **port}]
    if instances > 1 and source.chance(0.3):
        one, other = source.shuffled(range(instances))[:2]
        drawn["pairs"] = [{"source": one, "target": other, "speed": _speed(source)}]
    return drawn


def _rate(source: Source) -> Wire:
    return {
        "bytes_per_s": source.pick((1e12, 2.5e11, 2e12, 1e12 / 3, 7e11 + 0.1)) / source.unit,
        "latency": source.pick((0, 3, 20)) * source.unit,
    }


def _speed(source: Source) -> Wire:
    return _rate(source) | ({"curve": _curve(source)} if source.chance(0.3) else {})


def _curve(source: Source) -> list[tuple[int, int]]:
    points = source.whole(1, 3)
    sizes = accumulate(source.whole(1, 30) for _ in range(points))
    times = accumulate(source.ticks(0, 30) for _ in range(points))
    return list(zip(sizes, times, strict=True))

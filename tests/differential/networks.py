"""Random networks in the engine's format."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import strategies as st

from differential.wire import Wire

# Ticks a byte: 1, 4 and 1/2.
RATES = st.sampled_from([1e12, 2.5e11, 2e12])
LATENCIES = st.sampled_from([0, 3, 20])
POINTS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), max_size=3)
CURVES = POINTS.map(
    lambda steps: list(
        zip(accumulate(size for size, _ in steps), accumulate(time for _, time in steps), strict=True)
    )
)
PORTS = st.fixed_dictionaries({"bytes_per_s": RATES, "latency": LATENCIES})
SPEEDS = st.fixed_dictionaries({"bytes_per_s": RATES, "latency": LATENCIES, "curve": CURVES})


@st.composite
def networks(draw: st.DrawFn, instances: int) -> Wire:
    """Draw a network: half of them have a port of each instance and nothing else."""
    network: Wire = draw(PORTS)
    if draw(st.booleans()):
        return network
    index = st.integers(0, instances - 1)
    optional: dict[str, st.SearchStrategy[object]] = {
        "curve": CURVES,
        "nodes": st.lists(index, min_size=instances, max_size=instances),
        "inner": SPEEDS,
        "uplink": SPEEDS,
        "fabric": SPEEDS,
        "ports": st.lists(
            st.fixed_dictionaries(
                {"instance": index, "inner": st.none() | SPEEDS, "outer": st.none() | SPEEDS}
            ),
            max_size=2,
            unique_by=lambda port: port["instance"],
        ),
    }
    if instances > 1:
        pair = st.tuples(index, st.integers(1, instances - 1), SPEEDS).map(
            lambda drawn: {
                "source": drawn[0],
                "target": (drawn[0] + drawn[1]) % instances,
                "speed": drawn[2],
            }
        )
        optional["pairs"] = st.lists(
            pair, max_size=2, unique_by=lambda pair: (pair["source"], pair["target"])
        )
    return network | draw(st.fixed_dictionaries({}, optional=optional))

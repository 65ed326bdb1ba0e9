"""How unequally tenants were served: the measures that llm-d-router's issue 1182 asks for."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["OUTPUT_WEIGHT", "WINDOW_S", "difference", "jain", "service"]

OUTPUT_WEIGHT = 2.0
"""A token of an output counts as so many of a prompt, as in VTC and llm-d."""

WINDOW_S = 60.0

Floats = npt.NDArray[np.float64]


def jain(values: Floats) -> float:
    """Return Jain's index of fairness: 1 if all are equal, and one over their number if one has all.

    Examples
    --------
    >>> import numpy as np
    >>> jain(np.array([2.0, 2.0])), jain(np.array([1.0, 0.0]))
    (1.0, 0.5)
    """
    squares = float(len(values) * (values**2).sum())
    return float(values.sum()) ** 2 / squares if squares else 1.0


def service(rows: pl.DataFrame, edges: Floats) -> dict[str, Floats]:
    """Return the weighted tokens that each tenant was served between edges.

    A prompt counts when its first token appears, and the output evenly from then to its end.

    Parameters
    ----------
    rows
        ``requests`` of a result.
    edges
        Moments in seconds, in order.
    """
    found: dict[str, Floats] = {}
    for (name,), own in rows.filter(pl.col("first_token").is_not_null()).group_by("tenant"):
        first, finish = own["first_token"].to_numpy(), own["finish"].fill_null(edges[-1]).to_numpy()
        prompt, output = own["prompt_tokens"].to_numpy(), own["output_tokens"].to_numpy()
        total = np.zeros(len(edges))
        for at, edge in enumerate(edges):
            share = np.clip((edge - first) / np.maximum(finish - first, 1e-9), 0.0, 1.0)
            total[at] = float(
                (prompt * (first <= edge) + OUTPUT_WEIGHT * output * share * (first <= edge)).sum()
            )
        found[str(name)] = np.diff(total)
    return found


def difference(rows: pl.DataFrame, until: float) -> float:
    """Return the largest difference of service between two tenants that were both backlogged in a window.

    A tenant is backlogged if it has a request waiting all the time. 0 if there is no such window.
    """
    edges = np.arange(0.0, until + 1e-9, WINDOW_S)
    if len(edges) < 2:
        return 0.0
    served = service(rows, edges)
    waits = {
        str(name): (own["arrival"].to_numpy(), own["scheduled"].fill_null(np.inf).to_numpy())
        for (name,), own in rows.group_by("tenant")
    }
    looks = np.linspace(0.0, WINDOW_S, 13)
    most = 0.0
    for at, start in enumerate(edges[:-1]):
        moments = start + looks
        backlogged = [
            name
            for name, (arrival, scheduled) in waits.items()
            if all(((arrival <= moment) & (scheduled > moment)).any() for moment in moments)
        ]
        for one, other in combinations(backlogged, 2):
            zero = np.zeros(len(edges) - 1)
            gap = abs(served.get(one, zero)[at] - served.get(other, zero)[at])
            most = max(most, float(gap))
    return most

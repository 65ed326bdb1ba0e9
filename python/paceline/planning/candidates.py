"""What `paceline.plan` may build clusters of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline import _check
from paceline._arguments import typed_fields
from paceline._clock import moment
from paceline.deployment import Cluster, Instance, Links
from paceline.prediction import Prediction

__all__ = ["Candidates"]


@dataclass(frozen=True, slots=True)
@typed_fields()
class Candidates:
    """Kinds of instances to build clusters of, and what the clusters share.

    Parameters
    ----------
    instances
        One kind of instance; or several kinds, each a row of the plan, by name or named by their GPU.
    most
        The most GPUs of a cluster. Above 64, each kind is first tried with each request alone on the smallest
        cluster: where that misses the objective, the search ends at 64 GPUs. It also ends where each request
        has an instance, or one of each pool, to itself.
    links
        The network between the instances.
    prices
        Price per hour of a GPU, by its name: adds a column, by which the plan is then sorted.
    frontend_s, prediction
        As of `Cluster`.

    Raises
    ------
    ConfigError
        If ``most`` is not a positive whole number, or a time is out of range.

    Examples
    --------
    >>> import paceline
    >>> kinds = {name: paceline.Instance(model="llama-3.1-8b", gpu=name) for name in ("h100-sxm", "l40s")}
    >>> candidates = Candidates(kinds, most=8, prices={"h100-sxm": 2.5, "l40s": 0.9})
    >>> len(candidates.cluster(kinds["l40s"], 3).instances)
    3
    """

    instances: Instance | Sequence[Instance] | Mapping[str, Instance]
    most: int = 64
    links: Links | None = None
    prices: Mapping[str, float] | None = None
    frontend_s: float = 0.0
    prediction: Prediction | None = None

    def __post_init__(self) -> None:
        _check.count("most of Candidates", self.most)
        moment("frontend_s", self.frontend_s)

    def cluster(self, instance: Instance, count: int) -> Cluster:
        """Return a cluster of equal instances."""
        return Cluster(count * [instance], self.links, frontend_s=self.frontend_s, prediction=self.prediction)

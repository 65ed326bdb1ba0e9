"""Token counts by a table of quantiles for distributions with long tails."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError
from paceline.synthesis.lengths import Tokens
from paceline.synthesis.stable import Floats
from paceline.synthesis.tables import LogTable
from paceline.trace.schema import TOKENS_LIMIT

__all__ = ["LogQuantiles"]


@dataclass(frozen=True, slots=True)
@typed_fields()
class LogQuantiles:
    """A table of quantiles with straight lines between the logarithms of the counts.

    As `Quantiles`, for counts over several powers of ten of which few quantiles are published: a straight
    line from 135 at 90% to 1,107 at 99% gives a mean of 621 in between, its logarithm one of 462.

    Attributes
    ----------
    points
        Pairs of a probability and a count of at least 1, both rising, the first probability 0 and the last 1.
        Counts may be fractions: what is between the points is rounded.

    Examples
    --------
    >>> import numpy as np
    >>> LogQuantiles(((0, 1), (0.5, 10), (1, 1000))).tokens(np.array([0.25, 0.5, 0.75])).tolist()
    [3, 10, 100]
    """

    points: tuple[tuple[float, float], ...]
    _table: LogTable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_table", LogTable(self.points))
        low, high = self.points[0][1], self.points[-1][1]
        if low < 1 or high >= TOKENS_LIMIT:
            most = TOKENS_LIMIT - 1
            raise ConfigError(f"counts of points must be from 1 to {most:,}, was {low} to {high}")

    @typed()
    def tokens(self, u: Floats) -> Tokens:
        """Give the counts at probabilities `u`."""
        return np.rint(self._table.values(u)).astype(np.uint32)

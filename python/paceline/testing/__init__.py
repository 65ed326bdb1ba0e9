"""Tools to test policies.

`check` checks a result against the invariants of `docs/invariants.md`,
`assert_equivalent` that the replays of a policy are exact, and
`assert_no_starvation` that no request is passed over for longer than a bound.
``paceline.testing.strategies`` draws traces, instances, clusters and policies
for hypothesis, which it needs (``pip install 'paceline[testing]'``);
``paceline.testing.reference`` is the step-by-step simulator that the engine is
compared with.
"""

from __future__ import annotations

from paceline.testing import reference
from paceline.testing.checking import check
from paceline.testing.equivalence import assert_equivalent
from paceline.testing.starvation import Starvation, assert_no_starvation, overload, overtaken_s
from paceline.testing.violation import BrokenInvariant

__all__ = [
    "BrokenInvariant",
    "Starvation",
    "assert_equivalent",
    "assert_no_starvation",
    "check",
    "overload",
    "overtaken_s",
    "reference",
]

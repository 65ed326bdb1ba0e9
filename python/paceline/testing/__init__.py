"""Tools to test policies with.

`check` holds a result to the invariants of `docs/invariants.md`,
`assert_equivalent` a policy to the promises of exactness, and
`assert_no_starvation` to a bound on passing requests over.
``paceline.testing.strategies`` draws traces, instances, clusters and policies
for hypothesis, which it needs (``pip install 'paceline[testing]'``);
``paceline.testing.reference`` is the step-by-step simulator that the engine is
held to.
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

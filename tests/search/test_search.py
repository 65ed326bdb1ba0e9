"""Random cases over all settings of a configuration keep every promise.

``PACELINE_SEARCH_SECONDS`` is the time for drawing cases, ``PACELINE_SEARCH_SEED`` their seed. A case that
fails is printed with its seed and number: `python -m tests.search --seed SEED` makes it smaller.
"""

from __future__ import annotations

import os

import pytest

from search import report
from search.searching import search

SECONDS = float(os.environ.get("PACELINE_SEARCH_SECONDS", "8"))
SEED = int(os.environ.get("PACELINE_SEARCH_SEED", "1"))


OPEN = ("levels", "migrate: live, beside hand-overs")
"""Mechanisms with differences between engine and reference that are not mended yet, so that others are seen.

Of seed 1: cases 269 and 579 (live migration beside hand-overs), 764 and 854 (levels; the last runs on).
"""


@pytest.mark.timeout(SECONDS + 240)
def test_random_cases_keep_every_promise() -> None:
    found = search(SEED, SECONDS, workers=1, avoid=OPEN)
    print(report.table(found, rare=0.02))
    assert found.counts.accepted > 0
    said = [
        f"{kind}: seed {SEED}, case {number}: {found.details[kind, number][:300]}"
        for kind, numbers in found.kinds.items()
        for number in numbers[:3]
    ]
    assert not said, "\n".join(said)

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


@pytest.mark.timeout(SECONDS + 240)
def test_random_cases_keep_every_promise() -> None:
    found = search(SEED, SECONDS, workers=1)
    print(report.table(found, rare=0.02))
    assert found.counts.accepted > 0
    said = [
        f"{kind}: seed {SEED}, case {number}: {found.details[kind, number][:300]}"
        for kind, numbers in found.kinds.items()
        for number in numbers[:3]
    ]
    assert not said, "\n".join(said)

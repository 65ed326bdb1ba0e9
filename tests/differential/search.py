"""Keep looking for a case in which the engine and the reference differ: random policies, both ways.

    python tests/differential/search.py --seed 7 --cases 500

Prints how many different cases were compared, and the smallest of those that differed. The tests draw the
same cases at every run, so that a change is judged by what it changed; this is for after a change of the
engine.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]

from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from differential.policies import WireCase, policies  # noqa: E402
from differential.test_policies import (  # noqa: E402
    UNTIL,
    agree_on_decisions,
    agree_on_requests,
    agree_on_usage,
    reference,
)

PACE = st.none() | st.tuples(st.integers(1, 40), st.integers(0, 200))


def search(cases: int, number: int) -> tuple[int, list[tuple[int, bool, str, WireCase]]]:
    """Compare random cases.

    Return how many were different ones; and of those where the engine and the reference are not of one mind
    their sizes, whether leaping, what the two do not agree on, and the cases.
    """
    seen: set[str] = set()
    found: list[tuple[int, bool, str, WireCase]] = []

    @seed(number)
    @settings(
        max_examples=cases,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=policies(), until=UNTIL, pace=PACE)
    def compare(case: WireCase, until: int | None, pace: tuple[int, int] | None) -> None:
        if pace is not None:
            paced = {"interval": pace[0], "first": 2 * pace[0], "ttft": pace[1]}
            case = replace(case, config={**case.config, "pace": paced})
        halted = replace(case, config={**case.config, "until": until})
        whole, part = reference(case), reference(halted)
        seen.add(repr(halted))
        for leap in (False, True):
            try:
                agree_on_decisions(case, whole, leap=leap)
                agree_on_requests(halted, part, leap=leap)
                agree_on_usage(halted, part, leap=leap)
            except AssertionError as error:
                where = traceback.extract_tb(error.__traceback__)[-1].name
                found.append((len(repr(halted)), leap, where, halted))
                return

    compare()
    return len(seen), sorted(found, key=lambda difference: difference[0])


def main() -> None:
    """Read the command line, compare and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=500, help="how many to draw (500)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws others (1)")
    given_ = parser.parse_args()
    compared, found = search(given_.cases, given_.seed)
    print(f"{compared} different cases compared by leaping and by stepping, {len(found)} differ")
    if found:
        _, leap, where, case = found[0]
        print(f"the smallest, {'leaping' if leap else 'stepping'}, does not {where}:\n{case}")
        sys.exit(1)


if __name__ == "__main__":
    main()

"""A process that checks cases, drawn by number or given.

It reads lines of JSON and answers each with a line. Before each case it writes the number, so that the parent
knows which case killed it.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from typing import Any

from search import guard, mechanisms
from search.case import Case
from search.check import Verdict, check
from search.counts import Counts
from search.drawing import Drawing

SECONDS = 2.0
"""Processor time for one of many cases; a case that takes longer is checked again by itself."""
ALONE_S = 20.0
"""Processor time for a case by itself."""


def main() -> None:
    answers = sys.stdout
    guard.prepare()
    for line in sys.stdin:
        asked = json.loads(line)
        if "case" in asked:
            case = Case.from_json(base64.b64decode(asked["case"]))
            verdict = check(case, number=asked["number"], seconds=ALONE_S, tells=False)
            _say(answers, done=True, **_shown(verdict))
        else:
            _run(answers, **asked)


def _run(answers: Any, seed: int, start: int, stride: int, seconds: float, avoid: list[str]) -> None:
    """Check every ``stride``-th case until the time is up."""
    deadline, drawing = time.monotonic() + seconds, Drawing(seed)
    counts, number, last = Counts(), start, 0.0
    while (now := time.monotonic()) < deadline:
        if now - last > 1.0:
            _say(answers, next=number, counts=counts.given())
            counts, last = Counts(), now
        case = drawing.draw(number)
        if avoid and not mechanisms.drawn(case).isdisjoint(avoid):
            number += stride
            continue
        _say(answers, at=number, case=base64.b64encode(case.to_json()).decode())
        verdict = check(case, number=number, seconds=SECONDS)
        counts.add(verdict)
        if verdict.failures:
            _say(answers, number=number, **_shown(verdict))
        else:
            drawing.note(case, verdict.exercised)
        number += stride
    _say(answers, next=number, counts=counts.given())
    _say(answers, done=True, next=number)


def _shown(verdict: Verdict) -> dict[str, Any]:
    return {
        "failures": [[one.kind, one.detail] for one in verdict.failures],
        "refused": verdict.refused,
    }


def _say(answers: Any, **said: Any) -> None:
    answers.write(json.dumps(said) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()

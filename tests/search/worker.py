"""A process that checks cases: by their numbers, or as they are handed to it.

Reads lines of JSON and answers each with a line. It says which case it is at before it starts, so that what
kills it is known.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections import Counter
from typing import Any

from search import guard, mechanisms
from search.case import Case, draw
from search.check import Verdict, check


def main() -> None:
    answers = sys.stdout
    guard.prepare()
    for line in sys.stdin:
        asked = json.loads(line)
        if "case" in asked:
            verdict = check(Case.from_json(base64.b64decode(asked["case"])), number=asked["number"])
            _say(answers, done=True, **_shown(verdict))
        else:
            _run(answers, **asked)


def _run(answers: Any, seed: int, start: int, stride: int, seconds: float, avoid: list[str]) -> None:
    """Check every so-many-th case until the time is up."""
    deadline = time.monotonic() + seconds
    drawn: Counter[str] = Counter()
    exercised: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    number, cases, last = start, 0, time.monotonic()
    while (now := time.monotonic()) < deadline:
        if now - last > 1.0:
            _tell(answers, number, cases, drawn, exercised, refused)
            cases, last = 0, now
        case = draw(seed, number)
        if avoid and not mechanisms.drawn(case).isdisjoint(avoid):
            number += stride
            continue
        answers.write(f'{{"at":{number}}}\n')
        answers.flush()
        verdict = check(case, number=number, all_of_it=False, seconds=0.3)
        cases += 1
        if verdict.refused:
            refused[verdict.refused] += 1
        else:
            drawn.update(verdict.drawn)
            exercised.update(verdict.exercised)
        if verdict.failures:
            _say(answers, number=number, **_shown(verdict))
        number += stride
    _tell(answers, number, cases, drawn, exercised, refused)
    _say(answers, done=True, next=number)


def _tell(answers: Any, number: int, cases: int, *counters: Counter[str]) -> None:
    names = ("drawn", "exercised", "refused")
    _say(
        answers,
        next=number,
        cases=cases,
        **{name: dict(one) for name, one in zip(names, counters, strict=True)},
    )
    for counter in counters:
        counter.clear()


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

"""Cases near earlier ones: reproducible, valid, and near those whose replays did what few did."""

from __future__ import annotations

import pytest

from search.case import Case, draw
from search.draw.source import Source
from search.drawing import Drawing
from search.near import near
from search.pairs import Pairs


def _with_parents() -> Case:
    for number in range(1000):
        case = draw(3, number)
        if sum(bool(row.get("parents")) for row in case.requests) > 2:
            return case
    raise AssertionError("no case has requests with parents")


def test_requests_wait_for_those_before_them_whatever_is_left_out() -> None:
    case = _with_parents()
    changed = 0
    for number in range(150):
        other = near(case, case, Source(f"{number}"))
        changed += other != case
        for at, row in enumerate(other.requests):
            assert all(0 <= parent < at for parent in row.get("parents") or ()), number
    assert changed > 100


def test_the_case_that_another_is_near_is_left_as_it_is() -> None:
    case = draw(3, 1)
    before = case.to_json()
    assert any(near(case, case, Source(f"{number}")) != case for number in range(20))
    assert case.to_json() == before


def test_the_same_notes_give_the_same_cases() -> None:
    def drawn() -> list[Case]:
        drawing, cases = Drawing(5), list[Case]()
        for number in range(40):
            cases.append(drawing.draw(number))
            drawing.note(cases[-1], {f"of {number % 3}", "of all"})
        return cases

    assert drawn() == drawn()


def test_no_draw_is_two_cases() -> None:
    pairs = Pairs(7)
    texts = [pairs.draw(number).to_json() for number in range(80)]
    assert len(set(texts)) == 80
    again = Pairs(7)
    assert [again.draw(number).to_json() for number in range(80)] == texts


@pytest.mark.parametrize("rare", [True, False])
def test_cases_are_near_those_that_did_what_few_did(rare: bool) -> None:
    """A case with a column that no other has, noted for a mechanism that is rare or that all have."""
    drawing = Drawing(5)
    marked, plain = (
        Case([{**row, "mark": name} for row in draw(5, 0).requests], draw(5, 0).config) for name in "ab"
    )
    for _ in range(9):
        drawing.note(plain, {"frequent", "also frequent"})
    drawing.note(marked, {"rare"} if rare else set())
    cases = [drawing.draw(number) for number in range(100)]
    count = sum(case.requests[0].get("mark") == "a" for case in cases)
    assert (count > 10) == rare

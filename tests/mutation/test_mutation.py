"""The mutants that are written into a source, and the list of survivors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mutation import alike, cases, covering, scratch, survivors
from mutation.rewriting import Rewriter
from search.case import draw

SOURCE = b"""
const LEAST: u64 = 1 + 2;
impl<T> Pool<T> {
    fn take(&mut self, count: u64) -> bool {
        debug_assert!(count > 0);
        if count <= self.free && self.open { self.free -= count; return true; }
        false
    }
}
#[cfg(test)]
mod tests {
    fn helper() -> bool { 1 < 2 }
}
"""


def rewritten(*refused: str) -> tuple[list[str], str]:
    pytest.importorskip("tree_sitter", reason="needs requirements/mutants.txt")
    rewriter = Rewriter(refused=set(refused))
    text = rewriter.rewrite("pool.rs", SOURCE)
    return [mutant.name for mutant in rewriter.mutants], text


def test_a_mutant_is_an_operator_or_a_body_outside_constants_macros_and_tests() -> None:
    names, _ = rewritten()
    assert names == [
        "pool.rs Pool::take: return true at once",
        "pool.rs Pool::take: return false at once",
        "pool.rs Pool::take: && to || in count <= self.free && self.open",
        "pool.rs Pool::take: <= to < in count <= self.free",
        "pool.rs Pool::take: <= to > in count <= self.free",
        "pool.rs Pool::take: -= to += in self.free -= count",
        "pool.rs Pool::take: -= to *= in self.free -= count",
    ]


def test_each_mutant_is_asked_for_once_and_the_rest_stays() -> None:
    names, text = rewritten()
    for number in range(1, len(names) + 1):
        assert text.count(f"mutant::is({number})") == 1
    for kept in ("const LEAST: u64 = 1 + 2;", "debug_assert!(count > 0);", "fn helper() -> bool { 1 < 2 }"):
        assert kept in text


def test_a_mutant_is_asked_for_only_where_its_value_differs() -> None:
    _, text = rewritten()
    assert "let v_ = *l_ <= *r_; v_ != (((*l_ < *r_) != v_ && crate::mutant::is(4)) || " in text
    # The right side of `&&` is evaluated where the left one holds; if it does not hold, the mutant differs.
    assert "if l_ { !crate::mutant::on(3) } else { crate::mutant::is(3) }" in text
    assert "if l_ && !v_ { crate::mutant::note(3); }" in text
    # A difference of 0 is the sum.
    assert "if !crate::mutant::is_zero(&r_) && crate::mutant::is(6) { self.free += r_; }" in text


def test_a_function_without_effects_tells_by_its_value_whether_a_mutant_differs() -> None:
    pytest.importorskip("tree_sitter", reason="needs requirements/mutants.txt")
    rewriter = Rewriter()
    text = rewriter.rewrite("pool.rs", b"impl Pool { fn is_open(&self) -> bool { self.open } }")
    early = "if crate::mutant::on(1) { return true; } if crate::mutant::on(2) { return false; }"
    noted = "if v_ != true { crate::mutant::note(1); } if v_ != false { crate::mutant::note(2); }"
    assert f"{{ {early} let v_: bool = (|| {{ self.open }})(); {noted} v_ }}" in text


@pytest.mark.parametrize(
    ("body", "noted"),
    [
        (
            "if let Some(one) = &mut self.one { one.end(); }",
            "&mut self.one { crate::mutant::enter(1);  one.end",
        ),
        (
            "let one = self.one; if one == 0 { return; } self.end();",
            "return; }  crate::mutant::enter(1); self",
        ),
        (
            "while let Some(one) = self.next() { self.end(one); }",
            "self.next() { crate::mutant::enter(1);  self",
        ),
        ("self.end(); if self.open { self.close(); }", ""),
        ("if self.open { self.close(); } else { self.end(); }", ""),
    ],
)
def test_a_function_that_may_do_nothing_tells_whether_it_gets_past_its_first_conditions(
    body: str, noted: str
) -> None:
    pytest.importorskip("tree_sitter", reason="needs requirements/mutants.txt")
    text = Rewriter().rewrite("pool.rs", f"impl Pool {{ fn end(&mut self) {{ {body} }} }}".encode())
    assert "if crate::mutant::is(1) { return (); }" in text
    assert text.count("mutant::enter") == (noted != "")
    assert noted in text


class Engine:
    """Reaches the mutants of a replay that is made."""

    def __init__(self) -> None:
        self.now: bytes = b""

    def activate(self, number: int) -> None:
        pass

    def forget(self) -> None:
        self.now = b""

    def reached(self) -> bytes:
        return self.now


class Known(cases.Known):
    """A replay that reaches some mutants, and notices some of them."""

    def __init__(self, engine: Engine, name: str, reaches: set[int], notices: set[int]) -> None:
        self.name, self.size, self.notices, self._engine = name, 1, notices, engine
        self._reached = bytes(number in reaches for number in range(6))

    def outcome(self) -> tuple[str, int]:
        self._engine.now = self._reached
        return "", 0

    def failure(self) -> str | None:
        return None


class Replays(covering.Replays):
    """Asks in this process."""

    def _told(self, known: Any, numbers: list[int], *_: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        asked.append((known.name, list(numbers)))
        yield from ((number, {"killed": "log" if number in known.notices else None}) for number in numbers)

    def _is_sound(self, known: object) -> bool:
        return True


asked: list[tuple[str, list[int]]] = []


def replays_of(*several: tuple[str, set[int], set[int]]) -> Replays:
    """Replays that reach and notice mutants; the third is of another function than the first two.

    The others are of another file.
    """
    asked.clear()
    engine = Engine()
    places = {1: "pool.rs take", 2: "pool.rs take", 3: "pool.rs free", 4: "set.rs add", 5: "set.rs add"}
    replays = Replays(engine, places)  # type: ignore[arg-type]
    for name, reaches, notices in several:
        replays.add(Known(engine, name, reaches, notices))
    return replays


def test_each_replay_is_asked_once_about_the_mutants_that_it_reaches() -> None:
    found = {number: covering.Found(number) for number in (1, 2, 3)}
    replays = replays_of(("a", {1, 2}, set()), ("b", {1, 2, 3}, set()), ("c", {1, 2, 3}, {2}))
    replays.ask(found, 1)
    assert asked == [("a", [1, 2]), ("b", [3])]
    replays.ask(found, 3)
    assert asked[2:] == [("b", [1, 2]), ("c", [1, 2, 3])]
    assert [found[number].killed for number in (1, 2, 3)] == [None, "log", None]
    assert (found[2].by, found[1].ran, replays.asked) == ("c", 3, 8)


def test_a_replay_that_noticed_a_mutant_of_the_function_is_asked_first() -> None:
    found = {number: covering.Found(number) for number in (1, 2, 3)}
    replays = replays_of(("a", {1, 3}, set()), ("b", {1, 3}, set()), ("c", {1, 2, 3}, {2}))
    replays.ask(found, 1)
    assert asked == [("a", [1, 3]), ("c", [2])]
    replays.ask(found, 2)
    # The second mutant is noticed, and the third is of another function.
    assert asked[2:] == [("b", [3]), ("c", [1])]


def test_replays_that_reach_more_of_the_file_are_asked_before_others() -> None:
    found = {number: covering.Found(number) for number in (1, 2, 3)}
    several = {"a": {1, 4, 5}, "b": {1, 4}, "c": {1, 3}, "d": {1, 2}, "e": {1, 2, 3}}
    replays = replays_of(*((name, reaches, set()) for name, reaches in several.items()))
    replays.ask({1: found[1]}, 3)
    assert [name for name, _ in asked] == ["a", "b", "e"]


def test_replays_in_which_a_function_gets_past_its_conditions_are_asked_before_others() -> None:
    found = {1: covering.Found(1)}
    replays = replays_of(("a", {1, 2, 3}, set()), ("b", {1}, set()), ("c", {1, 2}, set()))
    replays._entered[1] = {1}
    replays.ask(found, 2)
    assert [name for name, _ in asked] == ["a", "b"]


def test_cases_near_a_replay_are_alike_in_most_places_and_the_same_each_time() -> None:
    parents = [cases.Checked(f"case 15:{number}", draw(15, number), number) for number in range(30)]
    before = [parent.case.to_json() for parent in parents]
    several = list(cases.around(parents, 3))
    assert [one.case.to_json() for one in cases.around(parents, 3)] == [one.case.to_json() for one in several]
    assert [parent.case.to_json() for parent in parents] == before
    assert [one.name for one in several[:4]] == [
        *(f"near case 15:0:{at}" for at in range(3)),
        "near case 15:1:0",
    ]
    alike = [one.case.requests == parents[at // 3].case.requests for at, one in enumerate(several)]
    changed = [one.case.to_json() != before[at // 3] for at, one in enumerate(several)]
    assert 0.2 < sum(alike) / len(alike) < 0.8
    assert sum(changed) > 0.9 * len(changed)


def test_replays_around_a_mutant_are_those_that_reach_more_of_its_file() -> None:
    found = {number: covering.Found(number) for number in (1, 2, 3)}
    replays = replays_of(("a", {1}, set()), ("b", {1, 2, 3}, set()), ("c", {1, 3}, set()))
    replays.ask(found, 3)
    assert [known.name for known in replays.around(1, 2)] == ["b", "c"]
    assert [known.name for known in replays.around(2, 2)] == ["b"]


def test_replays_that_reach_a_mutant_or_its_function_are_those_asked_or_not() -> None:
    found = {number: covering.Found(number) for number in (1, 2, 3)}
    replays = replays_of(("a", {1}, set()), ("b", {1, 3}, set()), ("c", {4}, set()))
    replays.ask({1: found[1]}, 1)
    for number, names in {1: ["a", "b"], 2: ["a", "b"], 3: ["b"], 4: ["c"], 5: ["c"]}.items():
        assert [known.name for known in replays.reaching(number)] == names


def test_replays_are_asked_in_an_order_in_which_the_first_ones_have_all_mechanisms() -> None:
    several = [{"tier"}, {"tier", "store"}, {"pace"}, set(), {"store"}, {"tier", "store", "pace"}, {"until"}]
    assert covering.varied(several) == [5, 6, 1, 2, 0, 4, 3]
    assert covering.varied([set(), set()]) == [0, 1]


def test_what_sets_cases_apart_is_what_nearly_all_of_them_have_and_few_others() -> None:
    several = [{"tier", "store", "model"}] * 9 + [{"tier", "store", "until"}]
    others = [{"tier"}] * 50 + [{"tier", "store"}] * 10 + [{"store"}] * 10 + [{"tier", "until"}] * 50
    # Fewer have stores than tiers; half of those have tiers, and none has a model.
    assert alike.apart(several, others) == {"store", "tier"}
    assert alike.apart([{"tier", "pace"}, {"tier", "until"}], others + [set()] * 200) == {"tier"}
    assert alike.apart([{"tier"}], others) == frozenset()


def test_further_draws_follow_the_others_and_have_all_of_a_set_of_mechanisms() -> None:
    wanted = frozenset({"handover", "reasoning"})
    several = list(alike.drawn(15, 4, {wanted}))
    assert len(several) == alike.EACH
    assert all(wanted <= one.mechanisms for one in several)
    assert [one.name for one in several[:2]] == [one.name for one in alike.drawn(15, 4, {wanted})][:2]
    assert min(int(one.name.rpartition(":")[2]) for one in several) >= 4 * (1 + cases.MORE)


def test_an_expression_with_a_refused_mutant_stays_as_it_is() -> None:
    names, text = rewritten("pool.rs Pool::take: -= to *= in self.free -= count")
    assert not any("-=" in name for name in names)
    assert "self.free -= count;" in text


def test_every_source_in_scope_is_read() -> None:
    pytest.importorskip("tree_sitter", reason="needs requirements/mutants.txt")
    rewriter = Rewriter()
    for path in scratch.sources():
        rewriter.rewrite(path.name, path.read_bytes())
    assert rewriter.mutants


def test_each_scope_has_sources_and_no_source_of_tests_is_among_them() -> None:
    files = [path.relative_to(scratch.ROOT / scratch.SOURCES).as_posix() for path in scratch.sources()]
    assert all(any(file.startswith(scope) for file in files) for scope in scratch.SCOPE)
    assert "instance/batch/decode_set/mod.rs" in files
    assert "instance/batch/decode_set_tests.rs" not in files
    assert "kv/tree/nodes/tests.rs" not in files


def test_a_mutant_is_listed_once(tmp_path: Path) -> None:
    file = tmp_path / "survivors.toml"
    file.write_text('[[group]]\nreason = "equal"\nmutants = ["a", "b"]\n')
    assert survivors.read(file).listed == {"a": "equal", "b": "equal"}
    file.write_text(file.read_text() + '[[group]]\nreason = "other"\nmutants = ["b"]\n')
    with pytest.raises(ValueError, match="each mutant once, and lists 'b' again"):
        survivors.read(file)


@pytest.mark.parametrize(
    ("slower", "faster", "differ", "explained"),
    [(3, 0, [], True), (0, 0, [], False), (3, 1, [], False), (3, 0, ["case 7"], False)],
)
def test_a_mutant_that_only_shortens_runs_needs_no_explanation(
    slower: int, faster: int, differ: list[str], explained: bool
) -> None:
    found = {"reached": True, "slower": slower, "faster": faster, "differ": differ}
    known = survivors.Survivors({}, {"run/planned.rs Instance::plan": "shorter"})
    name = "run/planned.rs Instance::plan: > to >= in all > rules.max_num_seqs"
    assert (known.reason(name, found) == "shorter") == explained
    assert known.reason("run/planned.rs Instance::other: !a without !", found) is None


def test_the_list_of_survivors_can_be_read() -> None:
    assert all(survivors.read().listed.values())
